"""All clients that the tests know."""

from support.clients.aio_kafka import AioKafkaClient
from support.clients.client import Client
from support.clients.confluent import ConfluentClient
from support.clients.driven import KafkaJsClient, LegacyClient
from support.clients.kafka_python import KafkaPythonClient
from support.clients.kcat import KcatClient

CLIENTS: list[Client] = [
    ConfluentClient(),
    KafkaPythonClient(),
    AioKafkaClient(),
    KcatClient(),
    KafkaJsClient(),
    LegacyClient("0.8.2"),
    LegacyClient("0.9"),
    LegacyClient("0.10.1"),
]
