"""Figures of the broker, and of its clients, for Prometheus: a place to register them, their text, the port."""
