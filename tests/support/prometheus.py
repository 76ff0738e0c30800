"""What Prometheus' own library reads in a page of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families


class Sample(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: float


class Page:
    """A page, which must be well-formed: each name once, each set of labels once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.types: dict[str, str] = {}
        self.samples: list[Sample] = []
        seen = set()
        for line in text.splitlines():
            if line.startswith("# TYPE"):
                name = line.split()[2]
                assert name not in seen, f"{name} begins twice"
                seen.add(name)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.types[sample.name] = family.type
                self.samples.append(Sample(sample.name, sample.labels, sample.value))
        keys = [(one.name, *sorted(one.labels.items())) for one in self.samples]
        assert len(keys) == len(set(keys)), "a series stands there twice"

    def of(self, name: str, **labels: str) -> list[Sample]:
        """The samples of a name that have these labels."""
        return [one for one in self.samples if one.name == name and labels.items() <= one.labels.items()]

    def value(self, name: str, **labels: str) -> float:
        (found,) = self.of(name, **labels)
        return found.value


def scrape(port: int, host: str = "127.0.0.1") -> Page:
    with urlopen(f"http://{host}:{port}/metrics", timeout=20) as reply:
        assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return Page(reply.read().decode())
