"""One partition's log on disk, in Kafka's own layout and bytes, and the directory that holds many of them."""
