"""What the commands on consumer groups share: what coordinators say of them, offsets, where to reset them to."""
