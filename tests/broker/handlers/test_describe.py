"""DescribeCluster, DescribeTopicPartitions and DescribeConfigs through the wire, in every version."""

from __future__ import annotations

import logging

import pytest

from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode

# -- DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(serve, version):
    served = serve(broker_rack="r1", node_id=3)
    reply = served.wire().call(messages.DescribeClusterRequest(), version)
    assert (reply.error_code, reply.cluster_id) == (0, served.broker.image.cluster_id)
    assert (reply.controller_id, reply.endpoint_type) == (3, 1)
    (node,) = reply.brokers
    assert (node.broker_id, node.host, node.port, node.rack) == (3, "127.0.0.1", served.port(), "r1")
    assert node.is_fenced is False
    assert reply.cluster_authorized_operations == -(2**31)


def test_operations_on_the_cluster_are_told_to_who_asks(wire):
    reply = wire.call(messages.DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    assert reply.cluster_authorized_operations == 8096


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("kind", "code"), [(2, "MISMATCHED_ENDPOINT_TYPE"), (0, "UNSUPPORTED_ENDPOINT_TYPE")])
def test_endpoints_that_are_not_brokers_are_refused(wire, version, kind, code):
    reply = wire.call(messages.DescribeClusterRequest(endpoint_type=kind), version)
    assert (reply.error_code, reply.brokers) == (ErrorCode[code], [])
    assert reply.error_message


# -- DescribeTopicPartitions


def pages(wire, *names, limit=2000, cursor=None):
    reply = wire.call(
        messages.DescribeTopicPartitionsRequest(
            topics=[messages.DescribeTopicPartitionsRequest.Topic(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor
            and messages.DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        ),
        0,
    )
    told = [(t.name, t.error_code, [p.partition_index for p in t.partitions]) for t in reply.topics]
    following = reply.next_cursor
    return told, following and (following.topic_name, following.partition_index)


@pytest.fixture
def three(wire):
    for name, count in (("b", 3), ("a", 2), ("c", 1)):
        wire.create(name, count)
    return wire


def test_all_topics_are_told_in_order_of_their_names(three):
    assert pages(three) == ([("a", 0, [0, 1]), ("b", 0, [0, 1, 2]), ("c", 0, [0])], None)


def test_a_partition_is_told_in_full(three):
    (topic,) = three.call(
        messages.DescribeTopicPartitionsRequest(topics=[messages.DescribeTopicPartitionsRequest.Topic(name="c")]), 0
    ).topics
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, 3576)
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.leader_epoch) == (0, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([0], [0], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_pages_put_together_are_everything_once(three, limit):
    seen, cursor = [], None
    while True:
        told, cursor = pages(three, limit=limit, cursor=cursor)
        page = [(name, index) for name, _, indexes in told for index in indexes]
        assert len(page) <= limit
        seen += page
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]


def test_a_page_that_ends_with_a_topic_points_to_the_next_one(three):
    assert pages(three, limit=2) == ([("a", 0, [0, 1])], ("b", 0))


def test_unknown_and_illegal_names_have_their_errors_and_take_no_room(three):
    assert pages(three, "c", "nope", "a b", limit=1) == (
        [("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, []), ("c", 0, [0])],
        ("nope", 0),
    )
    assert pages(three, "zzz") == ([("zzz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])], None)


def test_the_brokers_own_limit_holds_and_a_page_is_never_empty(serve):
    wire = serve(max_request_partition_size_limit=2).wire()
    wire.create("a", 3)
    assert pages(wire, limit=100) == ([("a", 0, [0, 1])], ("a", 2))
    assert pages(wire, limit=-1) == ([("a", 0, [0])], ("a", 1))


def test_a_cursor_that_points_nowhere_is_refused(three):
    assert pages(three, "a", cursor=("b", 0)) == ([("a", ErrorCode.INVALID_REQUEST, [])], None)
    assert pages(three, "a", cursor=("a", -1)) == ([("a", ErrorCode.INVALID_REQUEST, [])], None)


def test_a_cursor_whose_topic_is_gone_goes_on_behind_it(three):
    assert pages(three, cursor=("ab", 7)) == ([("b", 0, [0, 1, 2]), ("c", 0, [0])], None)


# -- DescribeConfigs

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def describe(wire, version, type, name, keys=None, **more):
    resource = messages.DescribeConfigsRequest.Resource(resource_type=type, resource_name=name, configuration_keys=keys)
    (result,) = wire.call(messages.DescribeConfigsRequest(resources=[resource], **more), version).results
    assert (result.resource_type, result.resource_name) == (type, name)
    return result


@pytest.mark.parametrize("version", range(5))
def test_a_topics_settings_are_told_with_their_sources(serve, version):
    wire = serve(log_retention_hours=24).wire()
    wire.create("t", 1, {"cleanup.policy": "compact"})
    result = describe(wire, version, TOPIC, "t")
    assert result.error_code == 0
    configs = {config.name: config for config in result.configs}
    assert len(configs) > 20
    assert configs["cleanup.policy"].value == "compact"
    assert configs["retention.ms"].value == str(24 * 3_600_000)
    assert not configs["cleanup.policy"].read_only
    if version == 0:
        assert [configs[name].is_default for name in ("cleanup.policy", "segment.bytes")] == [False, True]
    else:
        assert [configs[name].config_source for name in ("cleanup.policy", "segment.bytes")] == [1, 5]
        assert all(config.synonyms == [] for config in result.configs)
    if version >= 3:
        types = {name: configs[name].config_type for name in ("cleanup.policy", "retention.ms", "segment.bytes")}
        assert types == {"cleanup.policy": 7, "retention.ms": 5, "segment.bytes": 3}
        assert all(config.documentation is None for config in result.configs)


@pytest.mark.parametrize("version", range(1, 5))
def test_synonyms_and_documentation_are_told_to_who_asks(wire, version):
    wire.create("t", 1, {"segment.bytes": "2000"})
    more = {"include_documentation": True} if version >= 3 else {}
    (config,) = describe(wire, version, TOPIC, "t", ["segment.bytes"], include_synonyms=True, **more).configs
    assert [(one.name, one.value, one.source) for one in config.synonyms] == [
        ("segment.bytes", "2000", 1),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert bool(config.documentation) == (version >= 3)


@pytest.mark.parametrize("keys", [None, []])
def test_no_names_are_all_names(wire, keys):
    wire.create("t")
    assert len(describe(wire, 4, TOPIC, "t", keys).configs) > 20


def test_names_choose_and_unknown_ones_are_passed_over(wire):
    wire.create("t")
    result = describe(wire, 4, TOPIC, "t", ["retention.ms", "no.such"])
    assert (result.error_code, [config.name for config in result.configs]) == (0, ["retention.ms"])


@pytest.mark.parametrize("version", range(5))
def test_the_brokers_settings_are_told_under_its_id(serve, version):
    wire = serve(node_id=4, num_partitions=3).wire()
    result = describe(wire, version, BROKER, "4")
    configs = {config.name: config for config in result.configs}
    assert (configs["num.partitions"].value, configs["node.id"].value) == ("3", "4")
    assert configs["num.partitions"].read_only
    assert len(configs) > 40


def test_defaults_for_all_brokers_are_none(wire):
    result = describe(wire, 4, BROKER, "")
    assert (result.error_code, result.configs) == (0, [])


def test_the_levels_of_loggers_are_told_in_kafkas_words(wire):
    result = describe(wire, 4, LOGGER, "0")
    levels = {config.name: config.value for config in result.configs}
    assert "ottla.controller.controller" in levels
    expected = logging.getLevelName(logging.getLogger().getEffectiveLevel())
    assert levels["root"] == {"WARNING": "WARN", "CRITICAL": "FATAL"}.get(expected, expected)
    assert {config.config_source for config in result.configs} == {6}
    (one,) = describe(wire, 4, LOGGER, "0", ["root", "no.such"]).configs
    assert one.name == "root"


@pytest.mark.parametrize("version", range(5))
def test_what_cannot_be_described_has_its_own_error(wire, version):
    for type, name, code in (
        (TOPIC, "nope", "UNKNOWN_TOPIC_OR_PARTITION"),
        (TOPIC, "a b", "INVALID_TOPIC_EXCEPTION"),
        (BROKER, "7", "INVALID_REQUEST"),
        (BROKER, "one", "INVALID_REQUEST"),
        (BROKER, "²", "INVALID_REQUEST"),
        (LOGGER, "", "INVALID_REQUEST"),
        (LOGGER, "7", "INVALID_REQUEST"),
        (METRICS, "", "INVALID_REQUEST"),
        (GROUP, "", "INVALID_REQUEST"),
        (0, "x", "INVALID_REQUEST"),
        (99, "x", "INVALID_REQUEST"),
    ):
        result = describe(wire, version, type, name)
        assert (ErrorCode(result.error_code).name, result.configs) == (code, [])
        assert result.error_message


@pytest.mark.parametrize("type", [METRICS, GROUP])
def test_groups_and_client_metrics_that_nobody_has_set_anything_on_have_the_defaults(wire, type):
    result = describe(wire, 4, type, "any")
    assert (result.error_code, {row.config_source for row in result.configs}) == (0, {5})


def test_one_bad_resource_leaves_the_others_alone(wire):
    wire.create("t")
    resources = [
        messages.DescribeConfigsRequest.Resource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
        for name in ("nope", "t")
    ]
    results = wire.call(messages.DescribeConfigsRequest(resources=resources), 4).results
    assert [result.error_code for result in results] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
