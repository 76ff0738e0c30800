"""The broker's own figures: what its parts know about themselves already."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from ottla import __version__
from ottla.broker.metrics.figures import Figures

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def register(figures: Figures, broker: Broker) -> None:
    gauge, counter = figures.gauge, figures.counter
    labels = {"version": __version__, "cluster_id": broker.image.cluster_id, "node_id": str(broker.config.node_id)}
    gauge("ottla_broker_info", "Always 1; the labels say which broker this is.", lambda: [(labels, 1)])
    census = broker.census
    gauge("ottla_connections", "Connections that are open.", lambda: len(census.connections))
    counter("ottla_connections_accepted_total", "Connections since the start.", lambda: census.total_accepted)
    counter(
        "ottla_connections_refused_total",
        "Connections cut off by the broker, and why is logged.",
        lambda: census.refused,
    )
    gauge("ottla_topics", "Topics.", lambda: len(broker.image.topics))
    gauge("ottla_partitions", "Partitions on this broker.", lambda: sum(1 for _ in broker.replicas))
    gauge(
        "ottla_offline_partitions",
        "Partitions on this broker that cannot be served, since their disk failed or their data are damaged.",
        lambda: sum(partition.offline is not None for partition in broker.replicas),
    )
    directories = broker.logs.directories
    gauge(
        "ottla_offline_log_directories",
        "Data directories that have failed.",
        lambda: sum(directory.failure is not None for directory in directories),
    )
    cleaner = broker.cleaner
    gauge("ottla_uncleanable_partitions", "Logs that cannot be compacted.", lambda: len(cleaner.uncleanable))
    gauge("ottla_uncleanable_bytes", "Their dirty bytes.", lambda: cleaner.uncleanable_bytes)
    gauge(
        "ottla_cleaner_max_dirty_ratio", "The dirty part of the dirtiest compacted log.", lambda: cleaner.dirtiest_ratio
    )
    counter("ottla_cleaner_jobs_total", "Logs compacted since the start.", lambda: cleaner.cleaned)
    telemetry = broker.telemetry
    gauge("ottla_client_instances", "Clients that ask which metrics to push.", lambda: len(telemetry.instances))
    gauge("ottla_client_metrics_series", "Series kept of what clients pushed.", lambda: telemetry.series.weight)
    counter(
        "ottla_client_metrics_asked_total", "Clients that were told what to push.", lambda: telemetry.instances.asked
    )
    counter("ottla_client_metrics_pushes_total", "Pushes of clients that were taken.", lambda: telemetry.pushes)
    counter("ottla_client_metrics_refused_total", "Pushes that were refused.", lambda: telemetry.refused)
    counter(
        "ottla_client_metrics_throttled_total", "Requests that came too early.", lambda: telemetry.instances.throttled
    )
    counter(
        "ottla_client_metrics_dropped_total", "Points of pushes that were left out.", lambda: telemetry.series.dropped
    )
    _register_process(figures)
    figures.source(telemetry.series.render)


def _register_process(figures: Figures) -> None:
    """Under the names that Prometheus' own libraries use."""
    figures.gauge("process_resident_memory_bytes", "Resident memory.", _resident)
    figures.gauge("process_open_fds", "Open files and sockets.", lambda: len(os.listdir("/proc/self/fd")))
    figures.gauge("process_max_fds", "Most files and sockets.", lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    figures.counter("process_cpu_seconds_total", "User and system time.", lambda: sum(os.times()[:2]))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
