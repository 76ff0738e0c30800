"""Several consumers in one program: a thread for each, all in one group.

A consumer belongs to one thread. To use more, start more consumers; the group shares the partitions among them, as it
does among programs. More consumers than partitions are idle. Topics are chosen by a pattern here: topics that are made
later and fit it are read as well, as soon as the client looks (`topic.metadata.refresh.interval.ms`).
"""

import logging
import sys
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from arguments import options
from running import Running

log = logging.getLogger()  # its lines stay whole, whichever thread writes


def process(number: int, message: Message) -> None:
    log.info("consumer %d: %s-%d: %s", number, message.topic(), message.partition(), message.value().decode())


def consume(number: int, settings: dict[str, str], pattern: str, running: Running) -> None:
    def on_assign(_: Consumer, partitions: list[TopicPartition]) -> None:
        log.info("consumer %d has %s", number, sorted(f"{one.topic}-{one.partition}" for one in partitions))

    consumer = Consumer(settings)
    consumer.subscribe([pattern], on_assign=on_assign)  # what begins with ^ is a pattern
    try:
        while running:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            process(number, message)
    finally:
        consumer.close()


def main() -> None:
    wanted = options(__doc__, pattern="^visits-.*", group="several-consumers", consumers=3)
    settings = {
        "bootstrap.servers": wanted.bootstrap,
        "group.id": wanted.group,
        "auto.offset.reset": "earliest",
        **wanted.property,
    }
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    running = Running()
    with ThreadPoolExecutor(wanted.consumers) as threads:
        work = [
            threads.submit(consume, number, settings, wanted.pattern, running) for number in range(wanted.consumers)
        ]
    for one in work:
        one.result()  # raises what a thread has raised


if __name__ == "__main__":
    main()
