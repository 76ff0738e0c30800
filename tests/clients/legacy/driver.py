"""Drives kafka-python 1.4.7 for the tests: a line of JSON in, an answer out (tests/support/clients/driven.py)."""

import json
import sys
from base64 import b64decode, b64encode
from time import monotonic

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def text(data):
    return None if data is None else b64encode(data).decode()


def data(text):
    return None if text is None else b64decode(text)


class Connection:
    def __init__(self, bootstrap, patience, largest, version):
        self.patience = patience
        self.largest = largest
        self.common = {"bootstrap_servers": bootstrap, "api_version": tuple(version), "metadata_max_age_ms": 500}
        self.producers = {}
        self.consumer = KafkaConsumer(
            **self.common,
            group_id=None,
            fetch_max_wait_ms=10,
            max_partition_fetch_bytes=largest,
            enable_auto_commit=False,
        )

    def write(self, topic, partition, codec, records):
        if codec not in self.producers:
            self.producers[codec] = KafkaProducer(
                **self.common,
                acks="all",
                compression_type=None if codec == "none" else codec,
                max_request_size=self.largest,
                max_block_ms=int(self.patience * 1000),
                linger_ms=2,
                retries=20,
            )
        producer = self.producers[codec]
        sent = [
            producer.send(topic, data(value), data(key), partition=partition, timestamp_ms=timestamp)
            for _, timestamp, key, value, _ in records
        ]
        for future in sent:
            future.get(self.patience)

    def read(self, topic, partition, since):
        where = TopicPartition(topic, partition)
        if partition not in (self.consumer.partitions_for_topic(topic) or ()):
            raise LookupError(f"there is no {topic}-{partition}")
        self.consumer.assign([where])
        end = self.consumer.end_offsets([where])[where]
        if since is None:
            self.consumer.seek_to_beginning(where)
        else:
            found = self.consumer.offsets_for_times({where: since})[where]
            self.consumer.seek(where, end if found is None else found.offset)
        records = []
        deadline = monotonic() + self.patience
        while self.consumer.position(where) < end:
            if monotonic() > deadline:
                raise TimeoutError(f"{topic}-{partition} gives no records")
            for batch in self.consumer.poll(1000).values():
                records += [(one.offset, one.timestamp, text(one.key), text(one.value), []) for one in batch]
        return records

    def close(self):
        self.consumer.close()
        for producer in self.producers.values():
            producer.close(timeout=1)


def main():
    connections = []
    for line in sys.stdin:
        what = json.loads(line)
        do = what.pop("do")
        try:
            if do == "connect":
                connections.append(Connection(**what))
                ok = len(connections) - 1
            else:
                ok = getattr(connections[what.pop("to")], do)(**what)
            answer = {"ok": ok}
        except Exception as error:
            answer = {"error": repr(error), "code": getattr(error, "errno", None)}
        print(json.dumps(answer), flush=True)


main()
