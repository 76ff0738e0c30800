"""A broker that is killed while its segments are tiny: rolls, snapshots and flushes are cut short all the time.

Beside test_crash.py, where segments are large and the clients real: here every few records begin a segment, and each
partition has an idempotent writer that sends its last batch again after the crash, as a client does.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from ottla.protocol.errors import ErrorCode
from support.requests import batch, fetch, produce, records_in
from support.wire import Wire

PARTITIONS, KILLS, RECORDS = 6, 6, 150


@dataclass
class Writer:
    partition: int
    acknowledged: list[bytes] = field(default_factory=list)
    sequence: int = 0

    def write(self, port: int, enough: threading.Barrier) -> None:
        """Until the broker dies; what was under way then is sent again first, with the same sequence number."""
        try:
            wire = Wire("127.0.0.1", port)
            for number in range(1_000_000):
                value = b"%d of %d" % (self.sequence, self.partition)
                one = batch(value * 20, producer_id=100 + self.partition, producer_epoch=0, base_sequence=self.sequence)
                answer = produce(wire, "t", one, self.partition)
                assert answer.error_code == ErrorCode.NONE, answer
                assert answer.base_offset == self.sequence
                self.acknowledged.append(value * 20)
                self.sequence += 1
                if number == RECORDS:
                    enough.wait()
        except (OSError, threading.BrokenBarrierError):  # the broker is dead, or another writer saw it first
            enough.abort()


def test_acknowledged_records_are_there_once_however_often_a_roll_is_cut_short(ottla_broker_factory) -> None:
    broker = ottla_broker_factory(overrides={"log.segment.bytes": "4000", "log.index.interval.bytes": "500"})
    wire = Wire("127.0.0.1", broker.port)
    wire.create("t", PARTITIONS)
    wire.close()
    writers = [Writer(partition) for partition in range(PARTITIONS)]
    for _ in range(KILLS):
        enough = threading.Barrier(PARTITIONS + 1)
        threads = [threading.Thread(target=writer.write, args=(broker.port, enough)) for writer in writers]
        for thread in threads:
            thread.start()
        enough.wait(60)
        broker.kill()
        for thread in threads:
            thread.join(60)
        broker.start()
        wire = Wire("127.0.0.1", broker.port)
        for writer in writers:
            found = everything(wire, writer.partition)
            assert found[: len(writer.acknowledged)] == writer.acknowledged
            assert len(found) <= len(writer.acknowledged) + 1  # the one that was under way
        wire.close()
    assert len(list(broker.data_dir.glob("t-0/*.log"))) > 30


def everything(wire: Wire, partition: int) -> list[bytes]:
    found: list[bytes] = []
    while records := records_in(fetch(wire, "t", len(found), partition).records):
        assert [record.offset for record in records] == list(range(len(found), len(found) + len(records)))
        found += [bytes(record.value or b"") for record in records]
    return found
