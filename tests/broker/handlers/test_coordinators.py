"""FindCoordinator and InitProducerId through the wire, in every version."""

from __future__ import annotations

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

GROUP, TRANSACTION, SHARE = 0, 1, 2


def find(wire, version, *keys, key_type=GROUP):
    if version >= 4:
        return wire.call(messages.FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type), version)
    return wire.call(messages.FindCoordinatorRequest(key=keys[0], key_type=key_type), version)


@pytest.mark.parametrize("version", range(4))
def test_the_only_broker_coordinates_any_group(served, wire, version):
    for key in ("group", ""):
        reply = find(wire, version, key)
        assert (reply.error_code, reply.node_id, reply.host, reply.port) == (0, 0, "127.0.0.1", served.port())
        assert not reply.error_message


@pytest.mark.parametrize("version", range(4, 7))
def test_many_keys_each_get_an_answer_in_order(served, wire, version):
    reply = find(wire, version, "a", "b", "a", key_type=TRANSACTION)
    assert [(one.key, one.error_code, one.node_id, one.host, one.port) for one in reply.coordinators] == [
        (key, 0, 0, "127.0.0.1", served.port()) for key in ("a", "b", "a")
    ]
    assert find(wire, version).coordinators == []


@pytest.mark.parametrize("version", range(1, 4))
def test_transactional_ids_have_a_coordinator_too(wire, version):
    assert find(wire, version, "tx", key_type=TRANSACTION).node_id == 0


@pytest.mark.parametrize("version", range(1, 7))
def test_other_kinds_of_keys_are_refused(wire, version):
    for key_type in (SHARE, 3, -1, 127):
        reply = find(wire, version, "k", key_type=key_type)
        (one,) = reply.coordinators if version >= 4 else [reply]
        assert (one.error_code, one.node_id, one.host, one.port) == (ErrorCode.INVALID_REQUEST, -1, "", -1)
        assert one.error_message


def test_the_coordinator_is_told_by_its_advertised_address(serve):
    wire = serve(advertised_listeners=["PLAINTEXT://broker.example:9999"]).wire()
    assert (find(wire, 2, "g").host, find(wire, 4, "g").coordinators[0].port) == ("broker.example", 9999)


def init(wire, version, transactional_id=None, **more):
    return wire.call(
        messages.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000, **more),
        version,
    )


@pytest.mark.parametrize("version", range(7))
def test_each_idempotent_producer_gets_an_id_of_its_own_at_epoch_0(wire, version):
    replies = [init(wire, version) for _ in range(3)]
    assert [(reply.error_code, reply.producer_epoch) for reply in replies] == [(0, 0)] * 3
    assert len({reply.producer_id for reply in replies}) == 3
    assert all(reply.producer_id >= 0 for reply in replies)


def test_ids_never_repeat_over_blocks_and_restarts(served):
    seen = set()
    for _ in range(2):
        wire = served.wire()
        for _ in range(1100):
            reply = init(wire, 4)
            assert reply.error_code == 0
            assert reply.producer_id not in seen
            seen.add(reply.producer_id)
        served.restart()


@pytest.mark.parametrize("version", range(3, 7))
def test_a_producer_that_tells_its_old_id_gets_a_new_one(wire, version):
    old = init(wire, version)
    renewed = init(wire, version, producer_id=old.producer_id, producer_epoch=old.producer_epoch)
    assert (renewed.error_code, renewed.producer_epoch) == (0, 0)
    assert renewed.producer_id != old.producer_id


@pytest.mark.parametrize("version", range(3, 7))
def test_half_an_identity_is_refused(wire, version):
    for half in ({"producer_id": 5}, {"producer_epoch": 1}):
        reply = init(wire, version, **half)
        assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("version", range(7))
def test_a_transactional_id_keeps_its_producer_id_and_an_empty_one_is_refused(wire, version):
    find(wire, 4, "tx", key_type=TRANSACTION)
    id = f"tx-{version}"
    first, second = (init(wire, version, id) for _ in range(2))
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert (second.error_code, second.producer_id, second.producer_epoch) == (0, first.producer_id, 1)
    assert init(wire, version, "").error_code == ErrorCode.INVALID_REQUEST
