"""OffsetForLeaderEpoch through the wire, in every version."""

from __future__ import annotations

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record


def ask(wire, version, epoch, current=-1, topic="t", partition=0):
    asked = messages.OffsetForLeaderEpochRequest.Partition(partition=partition, leader_epoch=epoch)
    if version >= 2:
        asked.current_leader_epoch = current
    request = messages.OffsetForLeaderEpochRequest(
        topics=[messages.OffsetForLeaderEpochRequest.Topic(topic=topic, partitions=[asked])]
    )
    if version >= 3:
        request.replica_id = -1
    (reply,) = wire.call(request, version).topics
    assert reply.topic == topic
    (answer,) = reply.partitions
    assert answer.partition == partition
    return answer.error_code, answer.leader_epoch if version >= 1 else None, answer.end_offset


@pytest.fixture
def aged(served, wire):
    """Epoch 2 wrote offsets 0 and 1, epoch 5 wrote 2."""
    wire.create("t")
    for epoch, count in ((2, 2), (5, 1)):

        async def elect(epoch=epoch):
            served.broker.partition("t", 0).leader_epoch = epoch

        served.run(elect())
        wire.produce("t", [Record(at, 1, None, b"", []) for at in range(count)])
    return wire


@pytest.mark.parametrize("version", range(5))
def test_the_end_of_an_epoch_is_the_start_of_the_next(aged, version):
    answers = {5: (5, 3), 2: (2, 2), 3: (2, 2), 4: (2, 2), 1: (1, 0), 6: (-1, -1), -1: (-1, -1)}
    for epoch, answer in answers.items():
        code, found, end = ask(aged, version, epoch)
        assert (code, end) == (0, answer[1])
        if version >= 1:
            assert found == answer[0]


@pytest.mark.parametrize("version", range(2, 5))
def test_the_epoch_that_the_client_knows_is_checked(aged, version):
    codes = [ask(aged, version, 5, current)[0] for current in (-1, 4, 5, 6)]
    assert codes == [0, ErrorCode.FENCED_LEADER_EPOCH, 0, ErrorCode.UNKNOWN_LEADER_EPOCH]


@pytest.mark.parametrize("version", range(5))
def test_an_unknown_partition_has_its_own_error(aged, version):
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(aged, version, 0, topic="nope")[0] == ask(aged, version, 0, partition=4)[0] == unknown
