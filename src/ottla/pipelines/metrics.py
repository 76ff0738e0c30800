"""Metrics of running queries for Prometheus. All names begin with ottla_pipeline_ and have a label `application`."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ottla.pipelines.batches import Batch
from ottla.pipelines.cluster import Partition

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class PipelineMetrics:
    def __init__(self, application: str, registry: CollectorRegistry) -> None:
        self._application = application

        def counter(name: str, help: str, label: str = "query") -> Counter:
            return Counter(f"ottla_pipeline_{name}", help, ["application", label], registry=registry)

        def gauge(name: str, help: str, *labels: str) -> Gauge:
            return Gauge(f"ottla_pipeline_{name}", help, ["application", *labels], registry=registry)

        labels = ["application", "query"]
        self._seconds = Histogram(
            "ottla_pipeline_batch_seconds", "Time that batches take", labels, buckets=SECONDS, registry=registry
        )
        self._batches = counter("batches", "Batches that are done")
        self._input = counter("input_rows", "Records read")
        self._late = counter("late_rows", "Records that Spark dropped since they were behind its watermark")
        self._rejected = counter("rejected_rows", "Records that a step has left out, or sent to dead letters", "step")
        self._restarts = counter("restarts", "Times that a query was started again")
        self._rate = gauge("processed_rows_per_second", "Records processed per second in the last batch", "query")
        self._state_rows = gauge("state_rows", "Rows of state", "query")
        self._state_bytes = gauge("state_bytes", "Memory that state takes", "query")
        self._running = gauge("running", "1 while a query runs", "query")
        self._lag = gauge("lag", "Records of a partition that are not processed yet", "topic", "partition")

    def started(self, query: str, *, again: bool) -> None:
        self._running.labels(self._application, query).set(1)
        self._restarts.labels(self._application, query).inc(1 if again else 0)

    def ended(self, query: str) -> None:
        self._running.labels(self._application, query).set(0)

    def done(self, query: str, batch: Batch) -> None:
        labels = self._application, query
        self._batches.labels(*labels).inc()
        self._input.labels(*labels).inc(batch.input_rows)
        self._seconds.labels(*labels).observe(batch.seconds)
        self._late.labels(*labels).inc(batch.late)
        self._rate.labels(*labels).set(batch.rows_per_second)
        self._state_rows.labels(*labels).set(batch.state_rows)
        self._state_bytes.labels(*labels).set(batch.state_bytes)

    def rejected(self, more: Mapping[str, int]) -> None:
        for step, count in more.items():
            self._rejected.labels(self._application, step).inc(count)

    def lags(self, lags: Mapping[Partition, int]) -> None:
        for (topic, partition), lag in lags.items():
            self._lag.labels(self._application, topic, str(partition)).set(lag)
