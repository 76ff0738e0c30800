"""Where a cluster keeps what all its brokers must agree on: a tree of small versioned nodes."""
