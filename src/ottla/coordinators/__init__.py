"""What coordinators of groups and of transactions share: an internal topic, the journal in it, and reading it back."""
