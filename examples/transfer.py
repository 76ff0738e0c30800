"""Move money from one account to another: both entries or neither.

An account is the sum of its entries in the topic. A transfer writes two: less here, more there, in one transaction.
When it cannot be finished it is aborted, and who reads with `isolation.level=read_committed` never sees half of it.

    python transfer.py --amount 100 --to anna                     # from outside: an account is opened
    python transfer.py --amount 30 --of anna --to berta

Balances are read after init_transactions(), which fences whoever used the id before. So nobody can write between
reading and writing, and an account is never overdrawn, even by two programs that start at the same moment.
"""

import sys
from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from arguments import options

OUTSIDE = "outside"  # where money comes from


class Refused(Exception):
    """A transfer that may not be."""


def balances(bootstrap: str, topic: str, isolation: str = "read_committed") -> Counter[str]:
    """The sum of every account's entries."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "transfer",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    found: Counter[str] = Counter()
    open_partitions = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in open_partitions])
    while open_partitions:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if not message.error():
            found[message.key().decode()] += int(message.value())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            open_partitions.discard(message.partition())
        else:
            raise KafkaException(message.error())
    consumer.close()
    return found


def enter(producer: Producer, topic: str, account: str, amount: int) -> None:
    """One entry, refused if the account cannot bear it."""
    if not account.isalpha():
        raise Refused(f"{account!r} is no name of an account")
    producer.produce(topic, key=account, value=str(amount))
    producer.flush(30)  # for the sake of the example: the entry is in the log, whatever becomes of the transaction


def transfer(producer: Producer, topic: str, of: str, to: str, amount: int, known: Counter[str]) -> None:
    producer.begin_transaction()
    try:
        if amount <= 0:
            raise Refused("only more than nothing can be moved")
        if of != OUTSIDE and known[of] < amount:
            raise Refused(f"{of} has only {known[of]}")
        enter(producer, topic, of, -amount)
        enter(producer, topic, to, amount)
        producer.commit_transaction()
    except Refused:
        producer.abort_transaction()
        raise
    except KafkaException as problem:
        if problem.args[0].txn_requires_abort():
            producer.abort_transaction()
        raise


def main() -> None:
    wanted = options(__doc__, topic="accounts", of=OUTSIDE, to="anna", amount=1, transactional_id="bank")
    producer = Producer({"bootstrap.servers": wanted.bootstrap, "transactional.id": wanted.transactional_id})
    producer.init_transactions()
    known = balances(wanted.bootstrap, wanted.topic)
    try:
        transfer(producer, wanted.topic, wanted.of, wanted.to, wanted.amount, known)
    except Refused as problem:
        sys.exit(f"refused: {problem}")
    except KafkaException as problem:
        sys.exit(f"not done: {problem.args[0].name()}")
    for account, balance in sorted(balances(wanted.bootstrap, wanted.topic).items()):
        print(f"{account}: {balance}")


if __name__ == "__main__":
    main()
