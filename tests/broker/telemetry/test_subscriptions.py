"""Which clients are asked for which metrics."""

from __future__ import annotations

from ottla.broker.telemetry.subscriptions import Subscription, wanted_of

ME = bytes(range(16))
JAVA = {
    "client_id": "orders-1",
    "client_instance_id": "AAECAwQFBgcICQoLDA0ODw",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.3.1",
    "client_source_address": "10.0.0.7",
    "client_source_port": "51000",
}


def wanted(attributes=JAVA, **subscriptions):
    parsed = {name: Subscription.of(configs) for name, configs in subscriptions.items()}
    return wanted_of(ME, attributes, parsed)


def test_without_a_subscription_nothing_is_wanted_every_five_minutes():
    assert wanted()[1:] == ((), 300_000)


def test_a_subscription_without_a_match_is_for_all_clients():
    assert wanted(a={"metrics": "org.apache.kafka.producer., x", "interval.ms": "100"})[1:] == (
        ("org.apache.kafka.producer.", "x"),
        100,
    )


def test_all_of_a_match_must_fit_the_whole_value():
    for match, fits in {
        "client_id=orders-.*": True,
        "client_id=orders": False,
        "client_software_name=apache-kafka-java,client_software_version=4\\.3.*": True,
        "client_software_name=apache-kafka-java,client_software_version=3.*": False,
        "client_source_address=10\\.0\\.0\\.\\d+,client_source_port=5.*": True,
        "client_instance_id=AAECAwQFBgcICQoLDA0ODw": True,
    }.items():
        assert bool(wanted(a={"metrics": "m", "match": match}).metrics) == fits, match


def test_an_attribute_that_a_client_does_not_tell_fits_no_pattern():
    assert wanted({**JAVA, "client_id": None}, a={"metrics": "m", "match": "client_id=.*"}).metrics == ()


def test_matching_subscriptions_are_put_together_and_the_shortest_interval_holds():
    both = wanted(
        a={"metrics": "x,y", "interval.ms": "5000"},
        b={"metrics": "y,z", "interval.ms": "2000"},
        c={"metrics": "other", "interval.ms": "100", "match": "client_id=somebody-else"},
    )
    assert both[1:] == (("x", "y", "z"), 2000)
    assert wanted(a={"metrics": "x"}, b={"metrics": "*"}).metrics == ("*",)


def test_the_subscription_id_is_the_same_for_the_same_wish_of_the_same_client_only():
    one = wanted(a={"metrics": "x,y", "interval.ms": "5000"}).id
    assert wanted(b={"metrics": "y"}, c={"metrics": "x", "interval.ms": "5000"}).id == one
    assert -(2**31) <= one < 2**31
    assert wanted(a={"metrics": "x,y", "interval.ms": "5001"}).id != one
    assert wanted(a={"metrics": "x", "interval.ms": "5000"}).id != one
    parsed = {"a": Subscription.of({"metrics": "x,y", "interval.ms": "5000"})}
    assert wanted_of(ME[::-1], JAVA, parsed).id != one
