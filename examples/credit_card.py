"""Payments by card, as a flow between three programs that know only topics. Each has its way to exactly once.

    store    sells: writes payments to `payments`, and prints what becomes of each as `approvals` tells
    rules    approves or declines each payment: from `payments` to `approvals`, in transactions
    ledger   joins both topics into a database, for people who ask later

    python credit_card.py --role rules &
    python credit_card.py --role ledger --database ledger.sqlite &
    python credit_card.py --role store --payments 5

The store's producer is idempotent, so that no payment is written twice. The rules engine commits answers together with
its offsets. The ledger's rows have the payment's id as key: what comes twice finds its row.
"""

import json
import sqlite3
import uuid

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from arguments import options
from running import Running

LIMIT = 1000  # of one payment
TABLE = "CREATE TABLE IF NOT EXISTS payments (id TEXT PRIMARY KEY, card TEXT, amount INTEGER, answer TEXT)"


def create_topics(bootstrap: str, *topics: str) -> None:
    """Whoever comes first makes them."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 5})  # 5: no chatter
    for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        try:
            made.result()
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def consumer_of(bootstrap: str, group: str, properties: dict[str, str], *topics: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **properties,
        }
    )
    consumer.subscribe(list(topics))
    return consumer


def store(bootstrap: str, prefix: str, properties: dict[str, str], payments: int) -> None:
    topic, answers = f"{prefix}payments", f"{prefix}approvals"
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    waiting = {}
    for number in range(payments):
        payment = {"id": str(uuid.uuid4()), "card": f"card-{number}", "amount": 300 * number}
        waiting[payment["id"]] = payment
        producer.produce(topic, key=payment["card"], value=json.dumps(payment))
    producer.flush(30)
    group = f"{prefix}store-{uuid.uuid4()}"  # of its own: every till hears of all answers
    consumer = consumer_of(bootstrap, group, properties, answers)
    running = Running()
    while running and waiting:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        answer = json.loads(message.value())
        payment = waiting.pop(answer["id"], None)
        if payment:
            print(f"{payment['card']} pays {payment['amount']}: {answer['answer']}", flush=True)
    consumer.close()


def process(message: Message) -> dict[str, str]:
    """The rules."""
    payment = json.loads(message.value())
    return {"id": payment["id"], "answer": "approved" if payment["amount"] <= LIMIT else "declined"}


def rules(bootstrap: str, prefix: str, properties: dict[str, str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{prefix}rules"})
    producer.init_transactions()
    consumer = consumer_of(bootstrap, f"{prefix}rules", properties, f"{prefix}payments")
    running = Running()
    while running:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        producer.begin_transaction()
        producer.produce(f"{prefix}approvals", key=message.key(), value=json.dumps(process(message)))
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction()  # an error ends the program; the next start reads the payment again
    consumer.close()


def ledger(bootstrap: str, prefix: str, properties: dict[str, str], file: str) -> None:
    database = sqlite3.connect(file)
    database.execute(TABLE)
    consumer = consumer_of(bootstrap, f"{prefix}ledger", properties, f"{prefix}payments", f"{prefix}approvals")
    running = Running()
    while running:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        row = {"card": None, "amount": None, "answer": None, **json.loads(message.value())}
        with database:  # whichever half comes first makes the row, the other completes it
            database.execute(
                "INSERT INTO payments VALUES (:id, :card, :amount, :answer) ON CONFLICT DO UPDATE SET"
                " card = coalesce(:card, card), amount = coalesce(:amount, amount), answer = coalesce(:answer, answer)",
                row,
            )
        consumer.commit(message, asynchronous=False)
    consumer.close()


def main() -> None:
    wanted = options(__doc__, role="store", prefix="", payments=5, database="ledger.sqlite")
    if wanted.role not in ("store", "rules", "ledger"):
        raise SystemExit(f"--role {wanted.role}: store, rules or ledger is wanted")
    create_topics(wanted.bootstrap, f"{wanted.prefix}payments", f"{wanted.prefix}approvals")
    common = wanted.bootstrap, wanted.prefix, wanted.property
    if wanted.role == "store":
        store(*common, wanted.payments)
    elif wanted.role == "rules":
        rules(*common)
    else:
        ledger(*common, wanted.database)


if __name__ == "__main__":
    main()
