"""The leader's side of a partition: what it accepts, what it shows to consumers, who waits for it."""
