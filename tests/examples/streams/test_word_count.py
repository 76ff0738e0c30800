"""The word count: every count whenever it changes."""

from __future__ import annotations

from collections.abc import Callable

from ottla.streams.testing import Driver
from support.streams_examples import example


def test_each_change_of_a_word_s_count_goes_out(ottla_streams: Callable[..., Driver]) -> None:
    driver = ottla_streams(example("word_count").app)
    driver.send("wordcount-input", "Hello Kafka, hello Spark")
    driver.send("wordcount-input", "the end; THE END!")
    assert sorted(driver.read("wordcount-output")) == [("end", "2"), ("hello", "2"), ("kafka", "1"), ("spark", "1")]
    driver.send("wordcount-input", ", hello: a comma comes first")
    driver.send("wordcount-input", "")
    driver.send("wordcount-input", "Grüße")
    added = [("a", "1"), ("comes", "1"), ("comma", "1"), ("first", "1"), ("grüße", "1"), ("hello", "3")]
    assert sorted(driver.read("wordcount-output")) == added
    store = driver.store("CountStore")
    assert (store.get("hello"), store.get("the"), store.get("")) == (3, None, None)
