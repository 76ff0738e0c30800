"""Classic groups: members join, one of them assigns, all sync (KIP-62 and what came after)."""
