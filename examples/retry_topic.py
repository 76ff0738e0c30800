"""Put failed records into a topic of their own, go on, and try them again later.

One consumer reads both topics. A record that fails goes to the end of the retry topic, with the number of its attempts
and the time of the next. A record of the retry topic whose time has not come pauses its partition until then; since all
wait equally long, those behind it have even more time. After the last attempt it is a dead letter.

Use it where records do not depend on each other: the others are not held up, but the order is lost.
"""

import time

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from arguments import options
from running import Running


def process(message: Message) -> None:
    """Customers with a number are served; others need a few attempts, or for ever."""
    customer = message.value().decode()
    if attempts(message) < (0 if customer.isdigit() else 2 if customer.endswith("?") else 99):
        raise ValueError(f"cannot serve {customer}")
    print(f"served {customer} at attempt {attempts(message) + 1}", flush=True)


def header(message: Message, name: str) -> str | None:
    return next((value.decode() for key, value in message.headers() or [] if key == name), None)


def attempts(message: Message) -> int:
    return int(header(message, "attempts") or 0)


def main() -> None:
    wanted = options(
        __doc__, topic="visits", retry_topic="visits-retry", dead_letters="visits-dead", group="retry-topic",
        wait=5.0, most_attempts=3,
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": wanted.bootstrap, "enable.idempotence": True})
    consumer = Consumer(
        {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **wanted.property,
        }
    )
    due: dict[tuple[str, int], float] = {}  # when each partition that is paused goes on

    def send_on(message: Message, why: Exception) -> None:
        done = attempts(message) + 1
        topic = wanted.retry_topic if done < wanted.most_attempts else wanted.dead_letters
        headers = {"attempts": str(done), "not-before": str(time.time() + wanted.wait), "error": str(why)}
        producer.produce(topic, message.value(), message.key(), headers=headers)
        if producer.flush(30):
            raise TimeoutError(f"{topic} cannot be written to")
        print(f"{why}: {'later' if topic == wanted.retry_topic else 'given up'}", flush=True)

    def forget(_: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            due.pop((one.topic, one.partition), None)
        consumer.resume(partitions)  # should they come back: a pause outlives the assignment

    consumer.subscribe([wanted.topic, wanted.retry_topic], on_revoke=forget, on_lost=forget)
    running = Running()
    try:
        while running:
            for place in [place for place, at in due.items() if at <= time.time()]:
                consumer.resume([TopicPartition(*place)])
                del due[place]
            message = consumer.poll(min([1.0, *(max(0.0, at - time.time()) for at in due.values())]))
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            not_before = float(header(message, "not-before") or 0)
            if message.topic() == wanted.retry_topic and not_before > time.time():
                place = message.topic(), message.partition()
                consumer.pause([TopicPartition(*place)])
                consumer.seek(TopicPartition(*place, message.offset()))  # it comes again when its time has come
                due[place] = not_before
                continue
            try:
                process(message)
            except ValueError as problem:
                send_on(message, problem)
            consumer.commit(message, asynchronous=True)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
