"""Records that fail: put aside, tried again later, or waited for while the member stays in its group."""

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing import BrokerProcess
from support.consoles import fresh
from support.example_topics import ATTENTIVE, Topic, values
from support.programs import Program
from support.waiting import wait_until

Start = Callable[..., Program]


def test_a_poison_record_is_put_aside_and_the_others_go_on(topic: Topic, start: Start) -> None:
    dead = fresh("dead")
    topic.send('{"item": "anvil", "count": 2}', "no JSON", '{"item": "rope"}', '{"item": "bell", "count": "1"}')
    program = start("dead_letters", *topic.options, "--dead-letters", dead)
    program.until("offset 3: 1 of bell")
    wait_until(lambda: topic.committed() == 4)
    program.interrupt()
    assert program.having("offset 0: 2 of anvil")
    assert values(topic.bootstrap, dead) == ["no JSON", '{"item": "rope"}']
    consumer = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": fresh("g")})
    consumer.assign([TopicPartition(dead, 0, 1)])
    letter = consumer.poll(30)
    consumer.close()
    assert (letter.key(), dict(letter.headers())) == (
        b"customer",
        {"topic": topic.name.encode(), "partition": b"0", "offset": b"2", "error": b"KeyError: 'count'"},
    )


def test_failed_records_are_tried_again_later_and_given_up_at_last(topic: Topic, start: Start) -> None:
    retry, dead = Topic(topic.bootstrap, 1), fresh("dead")
    topic.send("1", "sometimes?", "2", "never", "3")
    program = start("retry_topic", *topic.options, "--retry-topic", retry.name, "--dead-letters", dead, "--wait", "0.3")
    program.until("given up")
    program.until("served sometimes?")
    program.interrupt()
    served = [line.split()[1] for line in program.having("served")]
    assert served == ["1", "2", "3", "sometimes?"]  # nobody waits for those that fail
    assert program.having("served sometimes? at attempt 3")
    assert len(program.having("cannot serve never: later")) == 2
    assert values(topic.bootstrap, dead) == ["never"]
    assert sorted(retry.values()) == ["never", "never", "sometimes?", "sometimes?"]


def test_a_record_whose_time_has_not_come_is_not_lost_when_its_reader_goes(topic: Topic, start: Start) -> None:
    retry, dead = Topic(topic.bootstrap, 1), fresh("dead")
    options = (*topic.options, "--retry-topic", retry.name, "--dead-letters", dead)
    topic.send("sometimes?")
    patient = start("retry_topic", *options, "--wait", "2")
    patient.until("later")
    patient.interrupt()
    program = start("retry_topic", *options, "--wait", "0.1")
    program.until("served sometimes? at attempt 3")
    program.interrupt()


def test_a_paused_partition_waits_and_the_others_go_on(broker: BrokerProcess, start: Start, tmp_path: Path) -> None:
    topic = Topic(broker.bootstrap, 2)
    down, up = tmp_path / "down", tmp_path / "up"
    down.touch()
    producer = Producer({"bootstrap.servers": topic.bootstrap})
    for partition, customer in ((0, down), (1, up)):
        for at in range(3):
            key = up if at == 0 else customer
            producer.produce(topic.name, str(10 * partition + at), str(key), partition=partition)
    assert producer.flush(30) == 0
    program = start("pause_and_resume", *topic.options, "--pause", "0.1")
    program.until("partition 0, paused at offset 1")
    program.until("partition 1, offset 2: 12")
    producer.produce(topic.name, "13", str(up), partition=1)
    producer.flush(30)
    program.until("partition 1, offset 3: 13")
    wait_until(lambda: topic.committed(1) == 4)
    assert topic.committed(0) == 1  # the record that fails is not committed, nor is one behind it
    assert not program.having("partition 0, offset 1")
    down.unlink()
    program.until("partition 0, offset 2: 2")
    wait_until(lambda: topic.committed(0) == 3)
    program.interrupt()
    assert len(program.having("paused")) == 1


def test_a_record_that_was_waited_for_comes_to_the_next_owner(topic: Topic, start: Start, tmp_path: Path) -> None:
    down = tmp_path / "down"
    down.touch()
    producer = Producer({"bootstrap.servers": topic.bootstrap})
    producer.produce(topic.name, "0", str(down))
    assert producer.flush(30) == 0
    first = start("pause_and_resume", *topic.options, "--pause", "0.1")
    first.until("paused at offset 0")
    first.interrupt()
    down.unlink()
    second = start("pause_and_resume", *topic.options, "--pause", "0.1")
    second.until("partition 0, offset 0: 0")
    second.interrupt()


def test_a_pause_does_not_outlive_a_rebalance(topic: Topic, start: Start, tmp_path: Path) -> None:
    down = tmp_path / "down"
    down.touch()
    producer = Producer({"bootstrap.servers": topic.bootstrap})
    producer.produce(topic.name, "0", str(down))
    assert producer.flush(30) == 0
    first = start("pause_and_resume", *topic.options, *ATTENTIVE, "--pause", "0.1")
    first.until("paused at offset 0")
    second = start("pause_and_resume", *topic.options, *ATTENTIVE, "--pause", "0.1")
    wait_until(lambda: topic.members() == 2)
    second.interrupt()
    first.until("paused at offset 0", 2)  # the partition has come back, and the record with it
    down.unlink()
    first.until("partition 0, offset 0: 0")
    first.interrupt()


def test_a_record_comes_when_its_time_has_come_though_its_partition_was_away(topic: Topic, start: Start) -> None:
    retry, dead = Topic(topic.bootstrap, 1), fresh("dead")
    options = (*topic.options, *ATTENTIVE, "--retry-topic", retry.name, "--dead-letters", dead, "--wait", "1")
    topic.send("sometimes?")
    first = start("retry_topic", *options)
    first.until("later")
    second = start("retry_topic", *options)
    wait_until(lambda: topic.members() == 2)
    second.interrupt()
    wait_until(lambda: first.having("served sometimes?") or second.having("served sometimes?"))
    first.interrupt()


def test_long_work_does_not_cost_the_membership(topic: Topic, start: Start) -> None:
    topic.send("4", "0")
    impatient = ("--property", "max.poll.interval.ms=3000", "--property", "session.timeout.ms=3000")
    program = start("long_processing", *topic.options, *ATTENTIVE, *impatient)
    program.until("offset 1: done")
    assert program.lines == ["partition 0, offset 0: done", "partition 0, offset 1: done"]
    wait_until(lambda: topic.committed() == 2)
    program.interrupt()


def test_work_in_hand_is_finished_before_the_partition_goes_to_another(topic: Topic, start: Start) -> None:
    topic.send("1.5", "0")
    first = start("long_processing", *topic.options, *ATTENTIVE)
    wait_until(lambda: topic.members() == 1)
    second = start("long_processing", *topic.options, *ATTENTIVE)
    wait_until(lambda: topic.committed() == 2)
    first.interrupt()
    second.interrupt()
    done = sorted(first.having("done") + second.having("done"))
    assert done == ["partition 0, offset 0: done", "partition 0, offset 1: done"]
