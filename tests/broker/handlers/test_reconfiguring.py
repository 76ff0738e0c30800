"""Settings of brokers, groups, subscriptions and loggers through the wire: set, shown, refused, kept."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.broker.dispatch import Request
from ottla.broker.handlers.describe_configs import describe_configs
from ottla.controller.configs import ConfigChange, ConfigEntry
from ottla.protocol import messages
from ottla.protocol.errors import ErrorCode
from support.settings import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    METRICS,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
    describe,
    replace,
    rows,
)
from support.wire import Wire

BAD_REQUEST, BAD_CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


# -- brokers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
def test_a_broker_goes_by_its_own_override_then_by_that_for_all_then_by_its_file(served, wire, version):
    key = "message.max.bytes"
    assert rows(wire, BROKER, "0", key) == {key: ("1048588", 5)}
    assert alter(wire, BROKER, "", (SET, key, "2000"), version=version) == (0, None)
    assert rows(wire, BROKER, "0", key) == {key: ("2000", 3)}
    assert alter(wire, BROKER, "0", (SET, key, "3000"), version=version) == (0, None)
    assert rows(wire, BROKER, "0", key) == {key: ("3000", 2)}
    assert rows(wire, BROKER, "") == {key: ("2000", 3)}
    (row,) = describe(wire, BROKER, "0", key, include_synonyms=True).configs
    assert [(one.name, one.value, one.source) for one in row.synonyms] == [
        (key, "3000", 2),
        (key, "2000", 3),
        (key, "1048588", 5),
    ]
    wire = served.restart().wire()
    assert rows(wire, BROKER, "0", key) == {key: ("3000", 2)}
    alter(wire, BROKER, "0", (DELETE, key, None), version=version)
    assert rows(wire, BROKER, "0", key) == {key: ("2000", 3)}
    alter(wire, BROKER, "", (DELETE, key, None), version=version)
    wire = served.restart().wire()
    assert rows(wire, BROKER, "0", key) == {key: ("1048588", 5)}
    assert rows(wire, BROKER, "") == {}


@pytest.mark.parametrize(
    ("name", "entries", "code", "words"),
    [
        ("0", [(SET, "message.max.bytes", "x")], BAD_CONFIG, "message.max.bytes=x .*32 bits"),
        ("0", [(SET, "message.max.bytes", "-5")], BAD_CONFIG, "message.max.bytes=-5 .*at least 0"),
        ("", [(SET, "message.max.bytes", "-5")], BAD_CONFIG, "message.max.bytes=-5 .*at least 0"),
        ("0", [(SET, "message.max.bites", "5")], BAD_CONFIG, "did you mean message.max.bytes"),
        ("0", [(DELETE, "message.max.bites", None)], BAD_CONFIG, "did you mean message.max.bytes"),
        ("0", [(SET, "num.partitions", "3")], BAD_REQUEST, "num.partitions cannot be changed while the broker runs"),
        ("", [(SET, "num.partitions", "3")], BAD_REQUEST, "num.partitions cannot be changed while the broker runs"),
        ("0", [(SET, "log.retention.hours", "3")], BAD_REQUEST, "log.retention.hours cannot be changed"),
        ("0", [(SET, "listeners", "PLAINTEXT://:1")], BAD_REQUEST, "listeners cannot be changed"),
        ("0", [(SET, "listener.name.plaintext.ssl.keystore.password", "s")], BAD_REQUEST, "TLS"),
        ("0", [(SET, "num.io.threads", "3")], BAD_REQUEST, "num.io.threads has no effect in ottla: one event loop"),
        ("0", [(SET, "unclean.leader.election.enable", "true")], BAD_REQUEST, "has no effect in ottla"),
        ("0", [(APPEND, "message.max.bytes", "5")], BAD_CONFIG, "message.max.bytes=5 .*only lists"),
        ("0", [(APPEND, "log.cleanup.policy", "burn")], BAD_CONFIG, "log.cleanup.policy=.*burn"),
        ("0", [(SET, "message.max.bytes", None)], BAD_REQUEST, "message.max.bytes has no value"),
        ("0", [(SET, "message.max.bytes", "1"), (SET, "message.max.bytes", "2")], BAD_REQUEST, "named 2 times"),
        ("0", [(7, "message.max.bytes", "1")], BAD_REQUEST, "no operation 7"),
        ("0", [(SET, "max.connections.per.ip.overrides", "nope")], BAD_CONFIG, "overrides=nope .*HOST:COUNT"),
        (
            "0",
            [(SET, "log.cleaner.min.compaction.lag.ms", "9"), (SET, "log.cleaner.max.compaction.lag.ms", "5")],
            BAD_CONFIG,
            "must not exceed log.cleaner.max.compaction.lag.ms=5",
        ),
        ("0", [(SET, "max.connections", "0")], BAD_CONFIG, "max.connections=0 .*nobody could connect"),
        ("", [(SET, "max.connections.per.ip", "0")], BAD_CONFIG, "per.ip=0 .*nobody could connect"),
        ("1", [(SET, "message.max.bytes", "1")], BAD_REQUEST, "this is broker 0; ask broker 1 itself"),
        ("x", [(SET, "message.max.bytes", "1")], BAD_REQUEST, "a number; this is 'x'"),
        ("-1", [], BAD_REQUEST, "a number; this is '-1'"),
    ],
)
def test_a_change_of_a_broker_that_cannot_be_is_refused_with_the_reason(wire, name, entries, code, words):
    refused, message = alter(wire, BROKER, name, (SET, "log.segment.bytes", "5000"), *entries)
    assert refused == code
    assert re.search(words, str(message)), message
    assert rows(wire, BROKER, "0", "log.segment.bytes") == {"log.segment.bytes": ("1073741824", 5)}


def test_taking_back_what_was_never_set_is_fine_for_every_key_of_kafkas(wire):
    for key in ("message.max.bytes", "num.partitions", "num.io.threads", "leader.replication.throttled.rate"):
        assert alter(wire, BROKER, "0", (DELETE, key, None)) == (0, None)


def test_the_older_request_replaces_a_brokers_overrides(wire):
    alter(wire, BROKER, "0", (SET, "message.max.bytes", "2000"), (SET, "log.segment.bytes", "5000"))
    assert replace(wire, BROKER, "0", {"message.max.bytes": "x"}) == BAD_CONFIG
    assert replace(wire, BROKER, "0", {"message.max.bytes": None}) == BAD_REQUEST
    assert replace(wire, BROKER, "0", {"num.partitions": "2"}) == BAD_REQUEST
    assert replace(wire, BROKER, "1", {}) == BAD_REQUEST
    assert replace(wire, BROKER, "0", {"message.max.bytes": "4000"}) == 0
    assert rows(wire, BROKER, "0", "message.max.bytes", "log.segment.bytes") == {
        "message.max.bytes": ("4000", 2),
        "log.segment.bytes": ("1073741824", 5),
    }


def test_lists_are_appended_to_and_subtracted_from_what_holds(wire):
    key = "log.cleanup.policy"
    alter(wire, BROKER, "", (APPEND, key, "compact"))
    assert rows(wire, BROKER, "") == {key: ("delete,compact", 3)}
    alter(wire, BROKER, "0", (SUBTRACT, key, "delete"))
    assert rows(wire, BROKER, "0", key) == {key: ("compact", 2)}


def test_only_asking_whether_it_would_do_changes_nothing(served, wire):
    assert alter(wire, BROKER, "0", (SET, "message.max.bytes", "5"), validate_only=True) == (0, None)
    assert alter(wire, BROKER, "0", (SET, "message.max.bytes", "x"), validate_only=True)[0] == BAD_CONFIG
    assert served.broker.config.message_max_bytes == 1_048_588


def test_what_two_resources_of_a_request_would_make_together_is_judged(served, wire):
    Asked = messages.IncrementalAlterConfigsRequest

    def resource(name: str, key: str, value: str) -> Any:
        config = Asked.Config(name=f"log.cleaner.{key}.compaction.lag.ms", config_operation=SET, value=value)
        return Asked.Resource(resource_type=BROKER, resource_name=name, configs=[config])

    answers = wire.call(Asked(resources=[resource("", "max", "5"), resource("0", "min", "9")]), 1).responses
    assert [answer.error_code for answer in answers] == [0, BAD_CONFIG]
    assert served.broker.config.log_cleaner_max_compaction_lag_ms == 5


# -- groups ------------------------------------------------------------------------------------------------------


def test_a_groups_settings_are_kept_and_shown_before_the_group_exists(served, wire):
    name = "orders/..%2F é"  # a group may have any name
    key = "consumer.session.timeout.ms"
    assert rows(wire, GROUP, name) == {
        key: ("45000", 5),
        "consumer.heartbeat.interval.ms": ("5000", 5),
        "consumer.assignment.interval.ms": ("1000", 5),
    }
    assert alter(wire, GROUP, name, (SET, key, "50000")) == (0, None)
    wire = served.restart().wire()
    (row,) = describe(wire, GROUP, name, key, include_synonyms=True).configs
    assert (row.value, row.config_source) == ("50000", 8)
    assert [(one.name, one.value, one.source) for one in row.synonyms] == [
        (key, "50000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    assert served.broker.group_config(name).value(key) == 50000
    alter(wire, GROUP, name, (DELETE, key, None))
    assert served.restart().broker.image.group_configs == {}


@pytest.mark.parametrize(
    ("name", "entry", "code", "words"),
    [
        ("", (SET, "consumer.session.timeout.ms", "46000"), BAD_REQUEST, "no name"),
        ("g", (SET, "consumer.session.timeout.ms", "1"), BAD_CONFIG, "bounds are 45000 to 60000"),
        ("g", (SET, "consumer.session.timeout.ms", "70000"), BAD_CONFIG, "bounds are 45000 to 60000"),
        ("g", (SET, "consumer.session.timeout.ms", "x"), BAD_CONFIG, "timeout.ms=x .*32 bits"),
        ("g", (SET, "consumer.session.timeout.ms", "-1"), BAD_CONFIG, "at least 1"),
        ("g", (SET, "consumer.heartbeat.interval.ms", "1"), BAD_CONFIG, "bounds are 5000 to 15000"),
        ("g", (SET, "consumer.heartbeat.interval.ms", "16000"), BAD_CONFIG, "bounds are 5000 to 15000"),
        ("g", (SET, "share.session.timeout.ms", "46000"), BAD_CONFIG, "unknown key share.session.timeout.ms"),
        ("g", (APPEND, "consumer.session.timeout.ms", "1"), BAD_CONFIG, "only lists"),
    ],
)
def test_a_groups_settings_stay_within_the_brokers_bounds(wire, name, entry, code, words):
    refused, message = alter(wire, GROUP, name, entry)
    assert refused == code
    assert re.search(words, str(message)), message


# -- clients' metrics --------------------------------------------------------------------------------------------


def test_a_subscription_is_kept_shown_and_told_to_who_wants_to_know(served, wire):
    told: list[str] = []
    served.broker.on_client_metrics.append(told.append)
    assert alter(wire, METRICS, "m", (SET, "metrics", "org.apache."), (SET, "match", "client_id=a.*")) == (0, None)
    assert alter(wire, METRICS, "m", (APPEND, "metrics", "com.")) == (0, None)
    assert told == ["m", "m"]
    assert served.broker.image.client_metrics == {"m": {"metrics": "org.apache.,com.", "match": "client_id=a.*"}}
    wire = served.restart().wire()
    assert rows(wire, METRICS, "m") == {
        "interval.ms": ("300000", 5),
        "match": ("client_id=a.*", 7),
        "metrics": ("org.apache.,com.", 7),
    }
    assert replace(wire, METRICS, "m", {"interval.ms": "1000"}) == 0
    assert rows(wire, METRICS, "m") == {"interval.ms": ("1000", 7), "match": ("", 5), "metrics": ("", 5)}
    assert replace(wire, METRICS, "m", {}) == 0
    assert served.broker.image.client_metrics == {}


@pytest.mark.parametrize(
    ("name", "entry", "code"),
    [
        ("", (SET, "interval.ms", "1000"), BAD_REQUEST),
        ("m", (SET, "interval.ms", "99"), BAD_CONFIG),
        ("m", (SET, "interval.ms", "3600001"), BAD_CONFIG),
        ("m", (SET, "interval.ms", "x"), BAD_CONFIG),
        ("m", (SET, "nope", "1"), BAD_CONFIG),
        ("m", (SET, "match", "client_id"), BAD_CONFIG),
        ("m", (SET, "match", "client_id="), BAD_CONFIG),
        ("m", (SET, "match", "client_id=a=b"), BAD_CONFIG),
        ("m", (SET, "match", "client_id=["), BAD_CONFIG),
        ("m", (SET, "match", "colour=red"), BAD_CONFIG),
        ("m", (APPEND, "interval.ms", "5"), BAD_CONFIG),
    ],
)
def test_a_subscription_that_makes_no_sense_is_refused(wire, name, entry, code):
    refused, message = alter(wire, METRICS, name, entry)
    assert (refused, bool(message)) == (code, True)


# -- loggers -----------------------------------------------------------------------------------------------------


@pytest.fixture
def logger():
    one = logging.getLogger("test.of.levels")
    yield one
    one.setLevel(logging.NOTSET)


def test_a_loggers_level_is_set_and_taken_away(wire, logger):
    for level, number in (("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)):
        assert alter(wire, LOGGER, "0", (SET, logger.name, level)) == (0, None)
        assert logger.level == number
        assert rows(wire, LOGGER, "0", logger.name, "nope") == {logger.name: (level, 6)}
    assert alter(wire, LOGGER, "0", (SET, logger.name, "DEBUG"), validate_only=True) == (0, None)
    assert logger.level == 50
    assert alter(wire, LOGGER, "0", (DELETE, logger.name, None)) == (0, None)
    assert logger.level == logging.NOTSET


def test_a_level_holds_for_all_loggers_below(wire, logger):
    assert alter(wire, LOGGER, "0", (SET, "test.of", "ERROR")) == (0, None)
    assert rows(wire, LOGGER, "0", "test.of", logger.name) == {"test.of": ("ERROR", 6), logger.name: ("ERROR", 6)}
    assert not logger.isEnabledFor(logging.WARNING)
    alter(wire, LOGGER, "0", (DELETE, "test.of", None))
    assert logger.isEnabledFor(logging.WARNING)


@pytest.mark.parametrize(
    ("name", "entry", "code"),
    [
        ("0", (SET, "root", "LOUD"), BAD_CONFIG),
        ("0", (SET, "root", "info"), BAD_CONFIG),
        ("0", (SET, "nope.logger", "INFO"), BAD_CONFIG),
        ("0", (DELETE, "nope.logger", None), BAD_CONFIG),
        ("0", (DELETE, "root", None), BAD_REQUEST),
        ("0", (APPEND, "root", "INFO"), BAD_REQUEST),
        ("0", (SUBTRACT, "root", "INFO"), BAD_REQUEST),
        ("0", (7, "root", "INFO"), BAD_REQUEST),
        ("0", (SET, "root", None), BAD_REQUEST),
        ("1", (SET, "root", "INFO"), BAD_REQUEST),
        ("", (SET, "root", "INFO"), BAD_REQUEST),
        ("x", (SET, "root", "INFO"), BAD_REQUEST),
    ],
)
def test_levels_that_make_no_sense_are_refused_and_the_good_ones_beside_them_too(wire, logger, name, entry, code):
    refused, message = alter(wire, LOGGER, name, (SET, logger.name, "ERROR"), entry)
    assert (refused, bool(message)) == (code, True)
    assert logger.level == logging.NOTSET


def test_the_older_request_does_not_know_loggers(wire):
    assert replace(wire, LOGGER, "0", {"root": "INFO"}) == BAD_REQUEST


# -- names of resources ------------------------------------------------------------------------------------------


def listed(wire: Wire, version: int, *types: int) -> Any:
    reply = wire.call(messages.ListConfigResourcesRequest(resource_types=list(types)), version)
    return reply.error_code, [(one.resource_type, one.resource_name) for one in reply.config_resources]


def test_what_has_settings_is_listed_by_kind(wire):
    wire.create("t")
    alter(wire, GROUP, "g", (SET, "consumer.session.timeout.ms", "46000"))
    alter(wire, METRICS, "m", (SET, "metrics", "*"))
    alter(wire, BROKER, "", (SET, "message.max.bytes", "46000"))
    everything = [(GROUP, "g"), (METRICS, "m"), (LOGGER, "0"), (BROKER, "0"), (TOPIC, "t")]
    assert listed(wire, 0) == (0, [(METRICS, "m")])
    assert listed(wire, 1) == (0, everything)
    for one in everything:
        assert listed(wire, 1, one[0]) == (0, [one])
    assert listed(wire, 1, TOPIC, GROUP) == (0, [(GROUP, "g"), (TOPIC, "t")])
    assert listed(wire, 1, TOPIC, 99) == (ErrorCode.UNSUPPORTED_VERSION, [])


@pytest.mark.parametrize("type", [BROKER, LOGGER, METRICS, GROUP])
def test_a_resource_named_twice_is_refused_both_times(wire, type):
    Asked = messages.IncrementalAlterConfigsRequest
    twice = [Asked.Resource(resource_type=type, resource_name="0", configs=[])] * 2
    answers = wire.call(Asked(resources=twice), 1).responses
    assert [answer.error_code for answer in answers] == [BAD_REQUEST] * 2


def turns_during(served: Any, work: Coroutine[Any, Any, Any]) -> tuple[int, Any]:
    """How often others had their turn on the broker's loop, and what came out."""

    async def run() -> tuple[int, Any]:
        task, turns = asyncio.ensure_future(work), 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        return turns, task.result()

    return served.run(run())  # type: ignore[no-any-return]


def test_others_have_their_turn_while_a_request_with_many_resources_is_looked_at(served):
    entries = [ConfigEntry("intervall.ms", "1")]
    changes = [ConfigChange(METRICS, f"m{index}", entries) for index in range(1000)]
    turns, results = turns_during(served, served.broker.controller.alter_configs(changes))
    assert {result.error_code for result in results} == {BAD_CONFIG}
    assert turns > 10
    Asked = messages.DescribeConfigsRequest
    body = Asked(resources=[Asked.Resource(resource_type=BROKER, resource_name="0", configuration_keys=None)] * 100)
    request = Request(32, 4, 1, None, None)
    turns, reply = turns_during(served, describe_configs(served.broker, request, body))
    assert len(reply.results) == 100
    assert turns > 10
