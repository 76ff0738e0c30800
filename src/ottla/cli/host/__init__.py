"""A broker's host: what it is like, and what the advice for brokers says to it. `ottla doctor` shows the findings."""
