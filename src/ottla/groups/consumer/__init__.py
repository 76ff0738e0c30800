"""Consumer groups of KIP-848: the broker assigns, and members move towards their assignments one by one."""
