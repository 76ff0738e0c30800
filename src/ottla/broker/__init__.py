"""The broker: everything below it, put together behind Kafka's requests."""
