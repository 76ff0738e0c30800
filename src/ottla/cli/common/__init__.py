"""What the commands share: how options are read, how brokers are reached, how results are shown."""
