"""A client that speaks raw frames: whole requests of any version, or their parts."""

from __future__ import annotations

import socket
import struct
from typing import Any

from ottla.protocol import apis, codec, messages
from ottla.protocol.records import Record, build_batch

TIMEOUT = 20


class Wire:
    """One connection. `call` sends a request and returns its reply; `send`, `receive` and `frame` are its parts."""

    def __init__(self, host: str, port: int, client_id: str | None = "test") -> None:
        self.socket = socket.create_connection((host, port), TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self.correlation_id = 0

    def call(self, request: Any, version: int) -> Any:
        correlation_id = self.send(request, version)
        return self.receive(type(request).__name__.removesuffix("Request"), version, correlation_id)

    def send(self, request: Any, version: int) -> int:
        self.correlation_id += 1
        key = apis.API_KEYS[type(request).__name__.removesuffix("Request")]
        header = apis.encode_request_header(key, version, self.correlation_id, self.client_id)
        body = codec.encode(request, version)
        self.socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        return self.correlation_id

    def receive(self, name: str, version: int, correlation_id: int) -> Any:
        frame = self.frame()
        assert struct.unpack_from(">i", frame)[0] == correlation_id
        start = 4
        if apis.response_header_version(apis.API_KEYS[name], version):
            assert frame[4] == 0
            start = 5
        return codec.decode(name + "Response", version, memoryview(frame)[start:])

    def frame(self) -> bytes:
        """The next reply as it came; ConnectionError if the broker has closed the connection."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(size - len(parts))
            if not part:
                raise ConnectionError(f"closed after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)

    # -- what many tests need

    def create(self, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> bytes:
        """Make a topic; returns its id."""
        topic = messages.CreateTopicsRequest.Topic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[messages.CreateTopicsRequest.Config(name=k, value=v) for k, v in (configs or {}).items()],
        )
        (made,) = self.call(messages.CreateTopicsRequest(topics=[topic]), 7).topics
        assert made.error_code == 0, made
        return bytes(made.topic_id)

    def produce(self, topic: str, records: list[Record], partition: int = 0, **batch: Any) -> int:
        """Write one batch; returns its first offset."""
        return self.produce_batch(topic, build_batch(records, **batch), partition)

    def produce_batch(self, topic: str, batch: bytes | bytearray, partition: int = 0) -> int:
        body = messages.ProduceRequest(
            acks=1,
            timeout_ms=10_000,
            topic_data=[
                messages.ProduceRequest.Topic(
                    name=topic,
                    partition_data=[messages.ProduceRequest.Partition(index=partition, records=batch)],
                )
            ],
        )
        (answer,) = self.call(body, 9).responses[0].partition_responses
        assert answer.error_code == 0, answer
        return int(answer.base_offset)

    def close(self) -> None:
        self.socket.close()
