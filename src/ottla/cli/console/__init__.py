"""What the console producer and the console consumer are made of: readers, formatters, and how values are coded."""
