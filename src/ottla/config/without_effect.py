"""Kafka's broker settings that ottla knows and that change nothing in it, with the reason.

Who sets one is told so at start: a configuration written for Kafka is taken, and nothing in it is ignored in silence.
"""

from __future__ import annotations

BY_REASON = {
    "one event loop serves a broker; run more brokers to use more cores": """
        num.network.threads num.io.threads queued.max.requests""",
    "connections are taken as they come; max.connections and max.connections.per.ip bound them": """
        max.connection.creation.rate""",
    "one node keeps its metadata in its data directory; there is no ZooKeeper or KRaft quorum to join yet": """
        zookeeper.connect zookeeper.connection.timeout.ms zookeeper.session.timeout.ms zookeeper.sync.time.ms
        zookeeper.max.in.flight.requests zookeeper.set.acl broker.id.generation.enable reserved.broker.max.id
        process.roles controller.listener.names initial.broker.registration.timeout.ms broker.heartbeat.interval.ms
        broker.session.timeout.ms inter.broker.protocol.version early.start.listeners server.max.startup.time.ms""",
    "there is one broker so far, so nothing is replicated": """
        replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.wait.max.ms replica.fetch.backoff.ms
        replica.fetch.response.max.bytes replica.lag.time.max.ms replica.lag.max.messages replica.socket.timeout.ms
        replica.socket.receive.buffer.bytes replica.selector.class num.replica.fetchers
        auto.leader.rebalance.enable leader.imbalance.check.interval.seconds
        leader.imbalance.per.broker.percentage controlled.shutdown.enable controlled.shutdown.max.retries
        controlled.shutdown.retry.backoff.ms controller.socket.timeout.ms inter.broker.listener.name
        security.inter.broker.protocol unclean.leader.election.interval.ms request.timeout.ms
        socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms leader.replication.throttled.rate
        follower.replication.throttled.rate replication.quota.window.num replication.quota.window.size.seconds
        alter.log.dirs.replication.quota.window.num
        alter.log.dirs.replication.quota.window.size.seconds cordoned.log.dirs""",
    "records are always stored in format 2, and old consumers are always served theirs": """
        log.message.format.version log.message.downconversion.enable""",
    "set log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms instead": """
        log.message.timestamp.difference.max.ms""",
    "groups are read back in small slices, and what they write is acknowledged by all replicas in sync": """
        offsets.load.buffer.size offsets.commit.required.acks""",
    "one event loop serves all groups, and what they write in one turn of it is written together": """
        group.coordinator.threads group.coordinator.append.linger.ms group.coordinator.append.max.buffer.size
        group.coordinator.cached.buffer.max.bytes group.coordinator.background.threads
        group.consumer.assignor.offload.enable""",
    "patterns of consumers are matched anew whenever topics come or go": """
        group.consumer.regex.refresh.interval.ms""",
    "transactions are always verified, and their coordinator is asked without a request": """
        transaction.partition.verification.enable add.partitions.to.txn.retry.backoff.ms
        add.partitions.to.txn.retry.backoff.max.ms""",
    "transactions are read back in small slices": "transaction.state.log.load.buffer.size",
    "two-phase commit is not offered": "transaction.two.phase.commit.enable",
    "listeners with TLS or SASL are not served yet": """
        connection.failed.authentication.delay.ms connections.max.reauth.ms authorizer.class.name super.users
        allow.everyone.if.no.acl.found principal.builder.class security.providers delegation.token.master.key
        delegation.token.secret.key delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
        delegation.token.max.lifetime.ms""",
    "quotas are not there yet": """
        quota.window.num quota.window.size.seconds quota.producer.default quota.consumer.default
        controller.quota.window.num controller.quota.window.size.seconds client.quota.callback.class""",
    "waiting requests are answered or dropped at once, there is nothing to purge": """
        fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
        delete.records.purgatory.purge.interval.requests""",
    "it names Java classes, and there is no JVM here": """
        metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
        auto.include.jmx.reporter kafka.metrics.reporters kafka.metrics.polling.interval.secs
        alter.config.policy.class.name create.topic.policy.class.name config.providers""",
    "a directory that fails is not survived yet": "log.dir.failure.timeout.ms",
    "every version of a request that is served is offered": """
        unstable.api.versions.enable unstable.feature.versions.enable""",
}

BY_PREFIX = {
    "ssl.": "listeners with TLS or SASL are not served yet",
    "sasl.": "listeners with TLS or SASL are not served yet",
    "listener.name.": "listeners with TLS or SASL are not served yet",
    "zookeeper.": "one node keeps its metadata in its data directory; there is no ZooKeeper to join yet",
    "controller.quorum.": "there is no KRaft quorum",
    "controller.performance.": "there is no KRaft quorum",
    "metadata.": "there is no KRaft quorum",
    "remote.": "tiered storage is left out",
    "log.local.": "tiered storage is left out",
    "group.share.": "share groups are not there yet",
    "share.": "share groups are not there yet",
    "group.streams.": "there are no Streams groups; streams run on Spark",
}

KNOWN_WITHOUT_EFFECT: dict[str, str] = {key: reason for reason, keys in BY_REASON.items() for key in keys.split()}


def reason_of(key: str) -> str | None:
    """Why a key of Kafka's has no effect; None for a key that Kafka does not have either."""
    reason = KNOWN_WITHOUT_EFFECT.get(key)
    if reason is None:
        for prefix, why in BY_PREFIX.items():
            if key.startswith(prefix):
                return why
    return reason
