"""What clients have pushed, as Prometheus' series: one per client instance, metric and set of labels.

    org_apache_kafka_producer_connection_creation_total{client_id="…",client_instance_id="…",
        client_software_name="…",client_software_version="…",…} 12

- Names are made legal (dots and dashes become underscores), and counters end in _total. Labels are the four above,
  those of the client's resource (group_id and the like) and those of the point.
- Clients push what was added since the last push (delta); here it is added up for each instance, so that a counter
  rises as Prometheus wants it. What comes as a total replaces the last total.
- A gauge that an instance has not pushed for KEPT_PUSHES pushes is dropped; all goes when the instance is forgotten.
- The type of a name is that of its first series. What comes with another type, or would stand under a name of the
  broker's own figures or of another series, is left out and counted, as is what passes the bounds below.

`ready` does the work that needs no state, for a thread; `take` is for the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.broker.metrics import text
from ottla.broker.telemetry.otlp import Labels, Point
from ottla.broker.telemetry.subscriptions import Attributes

MAX_SERIES = 50_000  # of all instances; a bucket or quantile counts as one
MAX_SERIES_OF_INSTANCE = 2_000
MAX_POINTS = 5_000  # of one push; what follows them is not read, and counts as one
MAX_LABELS = 512  # characters
MAX_NAME = 255
MAX_HELP = 200
KEPT_PUSHES = 3
PART = 500  # series in one part of the text

OWN_LABELS = ("client_id", "client_instance_id", "client_software_name", "client_software_version")
OWN_NAMES = ("ottla_", "process_")
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


class Ready(NamedTuple):
    """A point whose name and labels are as they are shown."""

    name: str
    labels: str
    point: Point


class _Series:
    __slots__ = ("bounds", "buckets", "count", "labels", "push", "quantiles", "value")

    def __init__(self, labels: str) -> None:
        self.labels = labels
        self.value = 0.0
        self.count = 0
        self.buckets: tuple[int, ...] = ()
        self.bounds: tuple[float, ...] = ()
        self.quantiles: tuple[tuple[float, float], ...] = ()
        self.push = 0

    def update(self, point: Point, push: int) -> None:
        self.push = push
        self.quantiles = point.quantiles
        if not point.delta:
            self.value, self.count, self.buckets = point.value, point.observed, point.buckets
        else:
            self.value += point.value
            self.count += point.observed
            same = self.bounds == point.bounds and len(self.buckets) == len(point.buckets)
            self.buckets = tuple(map(sum, zip(self.buckets, point.buckets))) if same else point.buckets
        self.bounds = point.bounds


class _Family:
    """All series of a name."""

    __slots__ = ("help", "kind", "name", "series")

    def __init__(self, name: str, kind: str, help: str) -> None:
        self.name = name
        self.kind = kind
        self.help = help
        self.series: dict[tuple[bytes, str], _Series] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names that its lines have."""
        return tuple(self.name + suffix for suffix in _SUFFIXES.get(self.kind, ("",)))


class _Instance:
    __slots__ = ("labels", "pushes", "series", "weight")

    def __init__(self, labels: str) -> None:
        self.labels = labels
        self.pushes = 0
        self.weight = 0
        self.series: dict[tuple[str, str], int] = {}  # (name, labels) -> weight


def own_labels(attributes: Attributes) -> str:
    return text.labels((name, attributes.get(name) or "") for name in OWN_LABELS)


def ready(points: Iterable[Point]) -> tuple[list[Ready], int]:
    """Points as they are shown, and how many were left out. Raises what reading them raises."""
    taken: list[Ready] = []
    dropped = 0
    names: dict[tuple[str, str], str] = {}
    shown: dict[Labels, str] = {}
    for seen, point in enumerate(points):
        if seen == MAX_POINTS:
            dropped += 1
            break
        name = names.get((point.name, point.kind))
        if name is None:
            name = names[point.name, point.kind] = _name(point)
        labels = shown.get(point.labels)
        if labels is None:
            labels = shown[point.labels] = _labels(point.labels)
        if len(labels) > MAX_LABELS or len(name) > MAX_NAME or name.startswith(OWN_NAMES):
            dropped += 1
        else:
            taken.append(Ready(name, labels, point))
    return taken, dropped


def _name(point: Point) -> str:
    name = text.metric_name(point.name)
    return name + "_total" if point.kind == "counter" and not name.endswith("_total") else name


def _labels(pairs: Labels) -> str:
    found = {text.label_name(name): value for name, value in pairs if value}
    return text.labels(
        (name, value) for name, value in sorted(found.items()) if name not in (*OWN_LABELS, "le", "quantile")
    )


class ClientSeries:
    def __init__(self, most: int = MAX_SERIES, most_of_instance: int = MAX_SERIES_OF_INSTANCE) -> None:
        self.dropped = 0  # points left out, since the start
        self.weight = 0
        self._most = most
        self._most_of_instance = most_of_instance
        self._families: dict[str, _Family] = {}
        self._names: dict[str, _Family] = {}  # of lines
        self._instances: dict[bytes, _Instance] = {}

    @property
    def instances(self) -> list[bytes]:
        return list(self._instances)

    def take(self, instance_id: bytes, attributes: Attributes, points: Iterable[Ready], dropped: int = 0) -> None:
        """One push of an instance."""
        instance = self._instances.get(instance_id)
        if instance is None:
            instance = self._instances[instance_id] = _Instance(own_labels(attributes))
        instance.pushes += 1
        self.dropped += dropped
        for name, labels, point in points:
            if not self._update(instance_id, instance, name, labels, point):
                self.dropped += 1
        self._drop_old_gauges(instance_id, instance)

    def _update(self, instance_id: bytes, instance: _Instance, name: str, labels: str, point: Point) -> bool:
        family = self._families.get(name)
        if family is None:
            family = _Family(
                name, point.kind, point.description[:MAX_HELP] or f"{point.name}, as clients push it (KIP-714)."
            )
            if any(one in self._names for one in family.names):
                return False
        elif family.kind != point.kind:
            return False
        weight = 1 + len(point.buckets) + len(point.quantiles)
        old_weight = instance.series.get((name, labels), 0)
        more = weight - old_weight
        if more > 0 and (instance.weight + more > self._most_of_instance or self.weight + more > self._most):
            return False
        key = (instance_id, labels)
        series = family.series.get(key)
        if series is None:
            series = _Series(f"{instance.labels},{labels}" if labels else instance.labels)
            family.series[key] = series
            if name not in self._families:
                self._families[name] = family
                self._names.update((one, family) for one in family.names)
        instance.series[name, labels] = weight
        instance.weight += more
        self.weight += more
        series.update(point, instance.pushes)
        return True

    def _drop_old_gauges(self, instance_id: bytes, instance: _Instance) -> None:
        old = [
            (name, labels)
            for name, labels in instance.series
            if (family := self._families[name]).kind == "gauge"
            and family.series[instance_id, labels].push <= instance.pushes - KEPT_PUSHES
        ]
        for name, labels in old:
            self._drop(instance_id, instance, name, labels)

    def forget(self, instance_id: bytes) -> None:
        """An instance is gone."""
        instance = self._instances.pop(instance_id, None)
        if instance is not None:
            for name, labels in list(instance.series):
                self._drop(instance_id, instance, name, labels)

    def _drop(self, instance_id: bytes, instance: _Instance, name: str, labels: str) -> None:
        weight = instance.series.pop((name, labels))
        instance.weight -= weight
        self.weight -= weight
        family = self._families[name]
        del family.series[instance_id, labels]
        if not family.series:
            del self._families[name]
            for one in family.names:
                del self._names[one]

    # -- the text --------------------------------------------------------------------------------------------------

    def render(self) -> Iterator[str]:
        """Everything, in parts; pushes may come between them."""
        for family in list(self._families.values()):
            lines = [text.head(family.name, family.kind, family.help)]
            for series in list(family.series.values()):
                _write(lines, family, series)
                if len(lines) >= PART:
                    yield "".join(lines)
                    lines = []
            if lines:
                yield "".join(lines)


def _write(lines: list[str], family: _Family, series: _Series) -> None:
    name, labels = family.name, series.labels
    if family.kind == "histogram":
        total = 0
        for bound, count in zip(series.bounds, series.buckets):
            total += count
            if bound != float("inf"):
                lines.append(text.sample(f"{name}_bucket", f'{labels},le="{text.number(bound)}"', total))
        lines.append(text.sample(f"{name}_bucket", f'{labels},le="+Inf"', series.count))
    elif family.kind == "summary":
        for quantile, value in series.quantiles:
            lines.append(text.sample(name, f'{labels},quantile="{text.number(quantile)}"', value))
    else:
        lines.append(text.sample(name, labels, series.value))
        return
    lines.append(text.sample(f"{name}_sum", labels, series.value))
    lines.append(text.sample(f"{name}_count", labels, series.count))
