"""What can be configured: definitions, broker and topic configuration, property files, the generated reference."""
