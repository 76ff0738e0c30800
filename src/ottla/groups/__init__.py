"""Groups of consumers and the offsets they commit: pure cores (classic/), and the coordinator that drives them."""
