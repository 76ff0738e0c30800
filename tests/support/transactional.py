"""A transactional producer on raw frames: every request of the protocol in any version, with right or wrong numbers.

Methods return the names of the errors that the broker gives (NONE where all is well). A `Producer` keeps its producer
id, epoch and sequence numbers as it is told them; `pid` and `epoch` may be given to say something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic, sleep
from typing import Any

from ottla.protocol import messages as m
from ottla.protocol.batch import iter_batches
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import iter_records
from support.requests import Topic, batch, fetch, produce_request, records_in
from support.wire import TIMEOUT, Wire

TIMEOUT_MS = 60_000
READ_COMMITTED = 1
TRANSACTION = 1  # type of a coordinator
LATEST = -1

Place = tuple[str, int]

TRY_AGAIN = ("CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")


def find_coordinator(wire: Wire, id: str) -> None:
    """Ask for the coordinator of a transactional id until it is there."""
    request = m.FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[id])
    patiently(lambda: name(wire.call(request, 4).coordinators[0].error_code), ("COORDINATOR_NOT_AVAILABLE",))


def patiently(ask: Callable[[], Any], errors: Iterable[str] = TRY_AGAIN) -> Any:
    """Ask again while the answer is one of `errors`, as clients do."""
    deadline = monotonic() + TIMEOUT
    while (answer := ask()) in errors:
        assert monotonic() < deadline, answer
        sleep(0.002)
    return answer


def name(code: int) -> str:
    return ErrorCode(code).name


class Producer:
    """`version` 2 of transactions unless told otherwise: says which versions of requests are sent."""

    def __init__(self, wire: Wire, id: str, *, version: int = 2) -> None:
        self.wire = wire
        self.id = id
        self.pid = self.epoch = -1
        self.sequences: dict[Place, int] = {}
        self.last_offset = -1  # that a batch got
        self.produce_version, self.end_version = (12, 5) if version == 2 else (9, 3)

    def init(
        self, version: int = 4, *, timeout_ms: int = TIMEOUT_MS, expected: tuple[int, int] = (-1, -1), **more: Any
    ) -> str:
        """Waits while a transaction is being ended."""
        request = m.InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            **more,
        )

        def ask() -> str:
            reply = self.wire.call(request, version)
            if not reply.error_code:
                self._became(reply.producer_id, reply.producer_epoch)
            return name(reply.error_code)

        return str(patiently(ask))

    def _became(self, pid: int, epoch: int) -> None:
        if (pid, epoch) != (self.pid, self.epoch):
            self.pid, self.epoch = pid, epoch
            self.sequences.clear()

    def _who(self, pid: int | None, epoch: int | None) -> dict[str, Any]:
        return {
            "producer_id": self.pid if pid is None else pid,
            "producer_epoch": self.epoch if epoch is None else epoch,
        }

    # -- partitions

    def add(self, *places: Place, version: int = 3, pid: int | None = None, epoch: int | None = None) -> Any:
        """The error, or a list of them where they differ."""
        topics = [m.AddPartitionsToTxnRequest.Topic(name=topic, partitions=[index]) for topic, index in places]
        if version < 4:
            who = self._who(pid, epoch)
            request = m.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=who["producer_id"],
                v3_and_below_producer_epoch=who["producer_epoch"],
                v3_and_below_topics=topics,
            )
            found = self.wire.call(request, version).results_by_topic_v3_and_below
        else:
            found = self._batched(topics, version, self._who(pid, epoch), verify=False)
        return _one_or_all(places, _added(found))

    def verify(self, *places: Place, version: int = 5, pid: int | None = None, epoch: int | None = None) -> Any:
        topics = [m.AddPartitionsToTxnRequest.Topic(name=topic, partitions=[index]) for topic, index in places]
        return _one_or_all(places, _added(self._batched(topics, version, self._who(pid, epoch), verify=True)))

    def _batched(self, topics: Any, version: int, who: dict[str, Any], *, verify: bool) -> Any:
        one = m.AddPartitionsToTxnRequest.Transaction(
            transactional_id=self.id, **who, verify_only=verify, topics=topics
        )
        (result,) = self.wire.call(m.AddPartitionsToTxnRequest(transactions=[one]), version).results_by_transaction
        return result.topic_results

    def begin(self, *places: Place) -> None:
        """Add partitions; waits for the transaction before."""
        assert patiently(lambda: self.add(*places)) == "NONE"

    def send(
        self,
        topic: Topic,
        *values: str,
        partition: int = 0,
        version: int | None = None,
        pid: int | None = None,
        epoch: int | None = None,
        sequence: int | None = None,
        transactional: bool = True,
        **more: Any,
    ) -> str:
        """Write one batch; sequence numbers are counted where nothing else is said and it is taken."""
        key = (topic if isinstance(topic, str) else topic.hex(), partition)
        first = self.sequences.get(key, 0) if sequence is None else sequence
        who = self._who(pid, epoch)
        data = batch(*values, base_sequence=first, transactional=transactional, **{**who, **more})
        code = self.send_raw((topic, partition, data), version=version)[0]
        if code == "NONE" and sequence is None:
            self.sequences[key] = first + len(values)
        return code

    def send_raw(self, *parts: tuple[Topic, int, bytes], version: int | None = None, id: Any = ()) -> list[str]:
        """One request with these batches; `id` None leaves the transactional id out."""
        request = produce_request(*parts, acks=-1)
        request.transactional_id = self.id if id == () else id
        reply = self.wire.call(request, self.produce_version if version is None else version)
        answers = [one for topic in reply.responses for one in topic.partition_responses]
        self.last_offset = answers[-1].base_offset
        return [name(one.error_code) for one in answers]

    # -- the end

    def end(
        self,
        commit: bool = True,
        *,
        version: int | None = None,
        pid: int | None = None,
        epoch: int | None = None,
    ) -> str:
        version = self.end_version if version is None else version
        reply = self.wire.call(
            m.EndTxnRequest(transactional_id=self.id, **self._who(pid, epoch), committed=commit), version
        )
        if version >= 5 and not reply.error_code:
            self._became(reply.producer_id, reply.producer_epoch)
        return name(reply.error_code)

    def commit(self, **more: Any) -> str:
        """Commit, and wait until all markers are written."""
        return self._end(True, **more)

    def abort(self, **more: Any) -> str:
        return self._end(False, **more)

    def _end(self, commit: bool, **more: Any) -> str:
        code = str(patiently(lambda: self.end(commit, **more)))
        self.settle()
        return code

    def settle(self) -> None:
        """Wait until no transaction of the id is being ended."""
        patiently(lambda: state_of(self.wire, self.id), ("PrepareCommit", "PrepareAbort"))

    # -- offsets

    def add_offsets(self, group: str, version: int = 3, pid: int | None = None, epoch: int | None = None) -> str:
        request = m.AddOffsetsToTxnRequest(transactional_id=self.id, **self._who(pid, epoch), group_id=group)
        return name(self.wire.call(request, version).error_code)

    def commit_offsets(
        self,
        group: str,
        offsets: dict[Place, int],
        version: int = 5,
        *,
        pid: int | None = None,
        epoch: int | None = None,
        metadata: str | None = "",
        **member: Any,
    ) -> Any:
        """The error, or a list of them where they differ."""
        topics = [
            m.TxnOffsetCommitRequest.Topic(
                name=topic,
                partitions=[
                    m.TxnOffsetCommitRequest.Partition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        committed_metadata=metadata,
                    )
                ],
            )
            for (topic, index), offset in offsets.items()
        ]
        request = m.TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            **self._who(pid, epoch),
            **{"generation_id": -1, "member_id": "", **member},
            topics=topics,
        )
        reply = self.wire.call(request, version)
        codes = {
            (topic.name, one.partition_index): name(one.error_code)
            for topic in reply.topics
            for one in topic.partitions
        }
        return _one_or_all(offsets, codes)


def _added(found: Any) -> dict[Place, str]:
    return {
        (topic.name, one.partition_index): name(one.partition_error_code)
        for topic in found
        for one in topic.results_by_partition
    }


def _one_or_all(places: Iterable[Place], codes: dict[Place, str]) -> Any:
    wanted = [codes[place] for place in places]
    return wanted[0] if len(set(wanted)) == 1 else wanted


# -- what can be seen ----------------------------------------------------------------------------------------------


def describe(wire: Wire, id: str) -> Any:
    (found,) = wire.call(m.DescribeTransactionsRequest(transactional_ids=[id]), 0).transaction_states
    return found


def state_of(wire: Wire, id: str) -> str:
    found = describe(wire, id)
    return str(found.transaction_state) if not found.error_code else name(found.error_code)


def listed(wire: Wire, version: int = 2, **filters: Any) -> dict[str, str]:
    """States by transactional id."""
    reply = wire.call(m.ListTransactionsRequest(**filters), version)
    assert not reply.error_code, reply
    return {one.transactional_id: one.transaction_state for one in reply.transaction_states}


def producers(wire: Wire, topic: str, partition: int = 0) -> dict[int, Any]:
    """What a partition knows of its producers."""
    asked = m.DescribeProducersRequest.Topic(name=topic, partition_indexes=[partition])
    (found,) = wire.call(m.DescribeProducersRequest(topics=[asked]), 0).topics[0].partitions
    assert not found.error_code, found
    return {one.producer_id: one for one in found.active_producers}


def is_led(wire: Wire, topic: str, partition: int) -> bool:
    """Whether a new partition can be used already."""
    asked = m.ListOffsetsRequest.Partition(partition_index=partition, current_leader_epoch=-1, timestamp=LATEST)
    request = m.ListOffsetsRequest(
        replica_id=-1, topics=[m.ListOffsetsRequest.Topic(name=topic, partitions=[asked])], timeout_ms=1000
    )
    return not wire.call(request, 7).topics[0].partitions[0].error_code


def end_offset(wire: Wire, topic: str, partition: int = 0, *, committed: bool = True, version: int = 7) -> int:
    """The last stable offset, or the high watermark."""
    asked = m.ListOffsetsRequest.Partition(partition_index=partition, current_leader_epoch=-1, timestamp=LATEST)
    request = m.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED if committed else 0,
        topics=[m.ListOffsetsRequest.Topic(name=topic, partitions=[asked])],
    )
    (found,) = wire.call(request, version).topics[0].partitions
    assert not found.error_code, found
    return int(found.offset)


def write_marker(
    wire: Wire,
    topic: str,
    producer: tuple[int, int],
    *,
    commit: bool = False,
    coordinator_epoch: int = 0,
    partition: int = 0,
    version: int = 1,
    transaction_version: int = 0,
) -> str:
    marker = m.WriteTxnMarkersRequest.Marker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
        topics=[m.WriteTxnMarkersRequest.Topic(name=topic, partition_indexes=[partition])],
    )
    (answer,) = wire.call(m.WriteTxnMarkersRequest(markers=[marker]), version).markers[0].topics[0].partitions
    return name(answer.error_code)


def read_committed(wire: Wire, topic: Topic, partition: int = 0, *, offset: int = 0) -> tuple[list[str], int]:
    """Values as a consumer with read_committed sees them, and the last stable offset."""
    found, stable = _read_committed(wire, topic, partition, offset)
    return [value for _, value in found], stable


def committed_records(wire: Wire, topic: Topic, partition: int = 0) -> list[tuple[int, str]]:
    """Offsets and values as a consumer with read_committed sees them."""
    return _read_committed(wire, topic, partition, 0)[0]


def _read_committed(wire: Wire, topic: Topic, partition: int, offset: int) -> tuple[list[tuple[int, str]], int]:
    found: list[tuple[int, str]] = []
    while True:
        answer = fetch(wire, topic, offset, partition, isolation=READ_COMMITTED)
        assert not answer.error_code, answer
        found += _visible(answer)
        for _, header in iter_batches(bytes(answer.records or b""), partial=True):
            offset = header.next_offset
        if offset >= answer.last_stable_offset:
            return found, int(answer.last_stable_offset)


def visible(answer: Any) -> list[str]:
    """What is left of a partition's answer when aborted records are taken out, as a consumer does it."""
    return [value for _, value in _visible(answer)]


def _visible(answer: Any) -> list[tuple[int, str]]:
    data = bytes(answer.records or b"")
    begins = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions or ())
    aborted: set[int] = set()
    found = []
    for position, header in iter_batches(data, partial=True):
        while begins and begins[0][0] <= header.last_offset:
            aborted.add(begins.pop(0)[1])
        if header.is_control:
            aborted.discard(header.producer_id)
        elif header.producer_id not in aborted or not header.is_transactional:
            whole = data[position : position + header.size]
            found += [(one.offset, (one.value or b"").decode()) for one in iter_records(whole, 1 << 30)]
    return found


def read_all(wire: Wire, topic: Topic, partition: int = 0) -> list[str]:
    """Values of all data records, aborted or not."""
    data = bytes(fetch(wire, topic, 0, partition).records or b"")
    return [
        (record.value or b"").decode()
        for position, header in iter_batches(data, partial=True)
        if not header.is_control
        for record in records_in(data[position : position + header.size])
    ]


# -- the ground ----------------------------------------------------------------------------------------------------


def begun(wire: Wire, id: str = "id", **options: Any) -> Producer:
    """A producer that is ready to write."""
    one = Producer(wire, id, **options)
    find_coordinator(wire, id)
    assert one.init() == "NONE"
    return one


def configure(wire: Any, topic: str, key: str, value: str | None) -> None:
    """Give a topic a setting of its own, or take it away."""
    change = m.IncrementalAlterConfigsRequest.Config(name=key, config_operation=0 if value else 1, value=value)
    resource = m.IncrementalAlterConfigsRequest.Resource(resource_type=2, resource_name=topic, configs=[change])
    (answer,) = wire.call(m.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0, answer


def delete_topic(wire: Any, topic: str) -> None:
    topics = [m.DeleteTopicsRequest.Topic(name=topic)]
    (answer,) = wire.call(m.DeleteTopicsRequest(topics=topics, timeout_ms=10_000), 6).responses
    assert answer.error_code == 0, answer
