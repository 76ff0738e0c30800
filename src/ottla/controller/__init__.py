"""The controller: the one broker that decides which topics there are and where their partitions live."""
