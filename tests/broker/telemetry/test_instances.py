"""Stories of client instances: who may ask and push when."""

from __future__ import annotations

import pytest

from ottla.broker.telemetry.instances import EXPIRY_MS, NO_ID, ClientInstances
from ottla.broker.telemetry.subscriptions import Subscription
from ottla.protocol.errors import ErrorCode as E

ME, OTHER = b"m" * 16, b"o" * 16
NOBODY = {"client_id": None}


class Story:
    """One client; time is in milliseconds."""

    def __init__(self, most=100, **configs):
        self.now = 1_000_000
        self.instances = ClientInstances(1000, most)
        self.subscribe(**configs or {"metrics": "*", "interval_ms": "5000"})

    def subscribe(self, **configs):
        parsed = Subscription.of({key.replace("_ms", ".ms"): value for key, value in configs.items()})
        self.instances.subscribe({"s": parsed})

    def get(self, who=ME, after=0):
        self.now += after
        error, instance = self.instances.get(who, NOBODY, self.now)
        if error is E.NONE:
            self.subscription_id = instance.wanted.id
        return error

    def push(self, who=ME, after=0, subscription_id=None, terminating=False, codec=0, size=10):
        self.now += after
        return self.instances.push(
            who,
            NOBODY,
            self.now,
            subscription_id=self.subscription_id if subscription_id is None else subscription_id,
            terminating=terminating,
            codec=codec,
            size=size,
        )[0]


def test_a_client_asks_once_and_pushes_at_the_interval():
    story = Story()
    assert story.get() is E.NONE
    assert story.push(after=2500) is E.NONE  # the first one may come early, by the client's jitter
    assert story.push(after=4999) is E.THROTTLING_QUOTA_EXCEEDED
    assert story.push(after=1) is E.NONE
    assert story.push(after=5000) is E.NONE
    assert story.instances.throttled == 1


def test_asking_again_before_the_interval_is_throttled():
    story = Story()
    story.get()
    assert story.get(after=4999) is E.THROTTLING_QUOTA_EXCEEDED
    assert story.get(after=1) is E.NONE
    story.push(after=10)
    assert story.get(after=4999) is E.THROTTLING_QUOTA_EXCEEDED


def test_a_changed_subscription_is_told_at_once():
    story = Story()
    story.get()
    story.push(after=100)
    story.subscribe(metrics="x", interval_ms="1000")
    assert story.push(after=10) is E.UNKNOWN_SUBSCRIPTION_ID
    old = story.subscription_id
    assert story.get(after=1) is E.NONE
    assert story.subscription_id != old
    assert story.push(after=1) is E.NONE
    assert story.push(after=1000) is E.NONE


def test_a_client_that_was_told_to_ask_again_may_do_so():
    story = Story()
    story.get()
    assert story.push(subscription_id=7) is E.UNKNOWN_SUBSCRIPTION_ID
    assert story.get(after=1) is E.NONE
    assert story.push(after=1, codec=9) is E.UNSUPPORTED_COMPRESSION_TYPE
    assert story.get(after=1) is E.NONE
    assert story.get(after=1) is E.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize("codec", [-1, 5, 127])
def test_a_codec_that_is_none_is_refused(codec):
    story = Story()
    story.get()
    assert story.push(codec=codec) is E.UNSUPPORTED_COMPRESSION_TYPE


def test_a_push_that_is_too_large_is_refused_and_the_next_one_is_judged_anew():
    story = Story()
    story.get()
    assert story.push(size=1001) is E.TELEMETRY_TOO_LARGE
    assert story.push(after=5000, size=1000) is E.NONE


def test_the_last_push_may_come_early_and_nothing_may_follow_it():
    story = Story()
    story.get()
    story.push(after=1)
    assert story.push(after=1, terminating=True) is E.NONE
    assert story.push(after=10_000) is E.INVALID_REQUEST
    assert story.push(after=10_000, terminating=True) is E.INVALID_REQUEST


@pytest.mark.parametrize("who", [NO_ID, bytes(15) + b"\1"])
def test_a_push_without_an_id_is_refused_and_remembered_by_nobody(who):
    story = Story()
    assert story.push(who, subscription_id=1) is E.INVALID_REQUEST
    assert len(story.instances) == 0


def test_a_client_that_another_broker_knew_may_push_with_what_it_was_told():
    story, restarted = Story(), Story()
    story.get()
    assert restarted.push(subscription_id=story.subscription_id) is E.NONE


def test_silent_clients_are_forgotten():
    story = Story()
    story.get()
    story.get(OTHER, after=EXPIRY_MS - 1)
    assert story.instances.expire(story.now) == []
    assert story.instances.expire(story.now + 1) == [ME]
    assert ME not in story.instances
    assert OTHER in story.instances


def test_a_client_with_a_long_interval_is_remembered_for_three_of_them():
    story = Story(metrics="*", interval_ms="300000")
    story.get()
    assert story.instances.expire(story.now + 899_999) == []
    assert story.instances.expire(story.now + 900_000) == [ME]


def test_only_so_many_clients_are_remembered_and_the_one_silent_for_longest_goes_first():
    story = Story(most=2)
    story.get(ME)
    story.get(OTHER, after=1)
    story.push(ME, after=1, subscription_id=0)
    story.get(b"n" * 16, after=1)
    assert len(story.instances) == 2
    assert ME in story.instances
    assert OTHER not in story.instances
