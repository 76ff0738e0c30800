"""Requests by key and name, and the headers before them.

Request header (header version): api key int16, api version int16, correlation id int32; from 1 on the client id, a
string with an int16 length in every version, may be null; from 2 on tagged fields. Header 2 goes with the flexible
versions of a request (KIP-482), header 0 with ControlledShutdown 0 alone.
Response header: correlation id int32; version 1, with flexible requests, has tagged fields. ApiVersions is answered
with header 0 in every version: a client that asks does not yet know what the broker speaks (KIP-511).
"""

import struct
from _codecs import utf_8_decode

from ottla.protocol.codec import skip_tags
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.schema import schema_of

API_KEYS = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "LeaderAndIsr": 4,
    "StopReplica": 5,
    "UpdateMetadata": 6,
    "ControlledShutdown": 7,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "Heartbeat": 12,
    "LeaveGroup": 13,
    "SyncGroup": 14,
    "DescribeGroups": 15,
    "ListGroups": 16,
    "SaslHandshake": 17,
    "ApiVersions": 18,
    "CreateTopics": 19,
    "DeleteTopics": 20,
    "DeleteRecords": 21,
    "InitProducerId": 22,
    "OffsetForLeaderEpoch": 23,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "WriteTxnMarkers": 27,
    "TxnOffsetCommit": 28,
    "DescribeAcls": 29,
    "CreateAcls": 30,
    "DeleteAcls": 31,
    "DescribeConfigs": 32,
    "AlterConfigs": 33,
    "AlterReplicaLogDirs": 34,
    "DescribeLogDirs": 35,
    "SaslAuthenticate": 36,
    "CreatePartitions": 37,
    "CreateDelegationToken": 38,
    "RenewDelegationToken": 39,
    "ExpireDelegationToken": 40,
    "DescribeDelegationToken": 41,
    "DeleteGroups": 42,
    "ElectLeaders": 43,
    "IncrementalAlterConfigs": 44,
    "AlterPartitionReassignments": 45,
    "ListPartitionReassignments": 46,
    "OffsetDelete": 47,
    "DescribeClientQuotas": 48,
    "AlterClientQuotas": 49,
    "DescribeUserScramCredentials": 50,
    "AlterUserScramCredentials": 51,
    "AlterPartition": 56,
    "UpdateFeatures": 57,
    "DescribeCluster": 60,
    "DescribeProducers": 61,
    "DescribeTransactions": 65,
    "ListTransactions": 66,
    "AllocateProducerIds": 67,
    "ConsumerGroupHeartbeat": 68,
    "ConsumerGroupDescribe": 69,
    "GetTelemetrySubscriptions": 71,
    "PushTelemetry": 72,
    "ListConfigResources": 74,
    "DescribeTopicPartitions": 75,
}
API_NAMES = {key: name for name, key in API_KEYS.items()}

NEVER = 1 << 15  # above any version
_API_VERSIONS = API_KEYS["ApiVersions"]
_CONTROLLED_SHUTDOWN = API_KEYS["ControlledShutdown"]
_flexible: dict[int, int] = {}
_FIXED = struct.Struct(">hhi")
_WITH_CLIENT_ID = struct.Struct(">hhih")


def flexible_from(name: str) -> int:
    """The first flexible version of a request and its response; NEVER when there is none."""
    flexible = schema_of(name + "Request").flexible
    return NEVER if flexible is None else flexible


def version_range(name: str) -> tuple[int, int]:
    """The versions that the tables know, first and last."""
    return schema_of(name + "Request").versions


def _flexible_from_key(api_key: int) -> int:
    found = _flexible.get(api_key)
    if found is None:
        # An unknown key has no known header beyond the client id; its request cannot be served anyway.
        if api_key not in API_NAMES:
            return NEVER
        found = _flexible[api_key] = flexible_from(API_NAMES[api_key])
    return found


def request_header_version(api_key: int, version: int) -> int:
    """The version of the header before a request, also for versions newer than the tables know."""
    if version >= _flexible_from_key(api_key):
        return 2
    return 0 if version == 0 and api_key == _CONTROLLED_SHUTDOWN else 1


def response_header_version(api_key: int, version: int) -> int:
    """The version of the header before a reply."""
    return 1 if version >= _flexible_from_key(api_key) and api_key != _API_VERSIONS else 0


def decode_request_header(view: memoryview, position: int = 0) -> tuple[int, int, int, str | None, int]:
    """(api key, version, correlation id, client id, position of the body)."""
    end = len(view)
    try:
        api_key, version, correlation_id = _FIXED.unpack_from(view, position)
        if version == 0 and api_key == _CONTROLLED_SHUTDOWN:
            return api_key, version, correlation_id, None, position + 8
        length = _WITH_CLIENT_ID.unpack_from(view, position)[3]
        position += 10
        client_id = None
        if length >= 0:
            stop = position + length
            if stop > end:
                raise MalformedMessage(f"request header: client id of {length} bytes, {end - position} are left")
            client_id = utf_8_decode(view[position:stop], "strict", True)[0]
            position = stop
        if version >= _flexible_from_key(api_key):
            tags = view[position]
            position += 1
            if tags:
                position = skip_tags(view, position, tags, end, "request header")
    except (struct.error, IndexError):
        raise MalformedMessage(f"request header: ends early, after {end} bytes") from None
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"request header: client id is not UTF-8: {error.reason}") from None
    return api_key, version, correlation_id, client_id, position


def encode_request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytearray:
    """The header of a request of this key and version."""
    header = request_header_version(api_key, version)
    out = bytearray(_FIXED.pack(api_key, version, correlation_id))
    if header >= 1:
        if client_id is None:
            out += b"\xff\xff"
        else:
            text = client_id.encode()
            out += len(text).to_bytes(2, "big", signed=True)
            out += text
    if header >= 2:
        out.append(0)
    return out
