"""Clients' own metrics (KIP-714): who may push what and when, what a push holds, and what is kept of it."""
