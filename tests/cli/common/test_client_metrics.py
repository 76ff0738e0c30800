from ottla.cli.common.client_metrics import table


def test_statistics_become_a_table_like_that_of_kafkas_tools() -> None:
    statistics = {
        "name": "x#producer-1",
        "client_id": "x",
        "txmsgs": 5,
        "age": 1.5,
        "brokers": {"b/0": {"name": "b/0", "rtt": {"avg": 7}, "toppars": {"t-0": {}}, "req": {"Produce": 1}}},
        "topics": {"t": {"topic": "t", "batchcnt": {"max": 2}, "partitions": {"0": {"txmsgs": 5}}}},
    }
    lines = table(statistics)
    width = len("topic:batchcnt.max:{client-id=x, topic=t}")
    assert lines[:2] == ["", f"{'Metric Name':{width}}   Value"]
    assert lines[2:] == [
        f"{'broker:rtt.avg:{client-id=x, broker=b/0}':{width}} : 7",
        f"{'client:age:{client-id=x}':{width}} : 1.500",
        f"{'client:txmsgs:{client-id=x}':{width}} : 5",
        "topic:batchcnt.max:{client-id=x, topic=t} : 2",
    ]
