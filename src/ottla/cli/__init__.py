"""The command line: `ottla COMMAND`, one module per command, imported when it is used."""
