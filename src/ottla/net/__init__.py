"""Connections: frames in, replies out, in order, within bounded memory. Nothing here knows what a request means."""
