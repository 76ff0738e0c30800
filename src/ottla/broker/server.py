"""Run one broker in this process until it is told to stop."""

from __future__ import annotations

import gc
import logging
import os
import sys

from ottla.broker import process
from ottla.broker.broker import Broker
from ottla.broker.process import StartError, StopSignal
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import address
from ottla.controller.controller import ClusterIdMismatch
from ottla.coordination.store import StoreError
from ottla.storage.errors import DamagedDirectory, DirectoryInUse, ForeignDirectory, StorageError

log = logging.getLogger(__name__)


def run(config: BrokerConfig) -> int:
    """The exit status: 0 after a proper stop. Raises StartError when the broker cannot start."""
    return process.run(lambda stop: serve(config, stop))


async def serve(config: BrokerConfig, stop: StopSignal) -> int:
    broker = Broker(config)
    try:
        await broker.start()
    except (DamagedDirectory, DirectoryInUse, ForeignDirectory, StorageError, ClusterIdMismatch, StoreError) as error:
        raise StartError(str(error)) from error
    except OSError as error:
        where = ", ".join(str(one) for one in config.endpoints)
        what = f"cannot open {error.filename}" if error.filename else f"cannot listen on {where}"
        raise StartError(f"{what}: {os.strerror(error.errno) if error.errno else error}") from error
    gc.collect(1)  # the young alone: among the others is next to no garbage, and many to walk
    gc.freeze()  # what is there now stays; later collections need not walk it
    where = ", ".join(address(listener.host or "0.0.0.0", listener.port) for listener in broker.listeners)
    print(f"ottla broker {config.node_id} ready on {where}", flush=True)
    log.info(
        "broker %d of cluster %s serves %d topics on %s (pid %d, Python %s)",
        config.node_id,
        broker.image.cluster_id,
        len(broker.image.topics),
        where,
        os.getpid(),
        sys.version.split()[0],
    )
    if broker.metrics is not None:
        log.info("metrics are at http://%s/metrics", address(broker.metrics.host or "0.0.0.0", broker.metrics.port))
    broker.disks.on_last_failure = stop.set
    await stop.wait()
    await broker.stop()
    if broker.disks.all_failed:
        log.error("broker %d stopped: none of its data directories can be used any more", config.node_id)
        return 1
    log.info("broker %d stopped", config.node_id)
    return 0
