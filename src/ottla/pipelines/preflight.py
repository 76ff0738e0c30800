"""What can be known to be wrong before Spark is asked for anything: brokers, topics, a checkpoint of something else.

Each check raises PipelineError with one line that names the thing and says how to mend it. Asked of the brokers through
confluent-kafka's AdminClient, which answers within a second where Spark's clients wait for a minute.

A checkpoint directory of ours holds Spark's own files and the file `ottla.json`, which says whose it is:

    {"application": "word-count", "query": "word-count-0", "topics": ["lines"], "fingerprint": "9f86d081884c7d65"}

`topics`: what it reads, as names or as one pattern. `fingerprint`: of the steps, by which a changed query is known.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ottla.pipelines.errors import PipelineError

PATIENCE = 5.0  # seconds until brokers must have answered
IDENTITY = "ottla.json"
SPARKS = ("metadata", "offsets", "commits")  # what Spark keeps in a checkpoint directory
REACH = ("security.", "sasl.", "ssl.", "client.dns.lookup")  # Kafka's settings that lead to brokers

Topics = str | Sequence[str] | re.Pattern[str]


def existing(bootstrap: str, options: Mapping[str, str] | None = None, patience: float = PATIENCE) -> dict[str, int]:
    """The topics that there are, each with how many partitions it has."""
    said: list[KafkaError] = []
    settings: dict[str, Any] = {name: value for name, value in (options or {}).items() if name.startswith(REACH)}
    settings |= {"bootstrap.servers": bootstrap, "error_cb": said.append, "log_level": 0}
    try:
        admin = AdminClient(settings)
    except (KafkaException, ValueError) as error:
        raise PipelineError(f"the brokers at {bootstrap} cannot be asked: {_words(error)}") from None
    try:
        found = admin.list_topics(timeout=patience)
    except KafkaException:
        admin.poll(0)  # so that error_cb is called
        raise _unreachable(bootstrap, said, patience) from None
    return {name: len(topic.partitions) for name, topic in found.topics.items() if topic.error is None}


def check_topics(
    bootstrap: str, topics: Topics, options: Mapping[str, str] | None = None, patience: float = PATIENCE
) -> dict[str, int]:
    """The topics that are meant, each with its partitions; an error names one that is not there.

    A pattern that matches nothing yet is no error: topics that match later are read from then on.
    """
    there = existing(bootstrap, options, patience)
    if isinstance(topics, re.Pattern):
        return {name: count for name, count in there.items() if topics.fullmatch(name)}
    wanted = [topics] if isinstance(topics, str) else topics
    check_named(wanted, there, bootstrap)
    return {name: there[name] for name in wanted}


def check_named(topics: Sequence[str], there: Mapping[str, int], bootstrap: str) -> None:
    """Raise for the first topic that is not among those that are there."""
    for name in topics:
        if name not in there:
            raise PipelineError(f"there is no topic {name} at {bootstrap}{_nearest(name, there)}")


def _nearest(name: str, there: Mapping[str, int]) -> str:
    close = difflib.get_close_matches(name, [other for other in there if not other.startswith("__")], 1)
    create = f"create it: ottla topics --create --topic {name}"
    return f": did you mean {close[0]}? If not, {create}" if close else f": {create}"


def _words(error: Exception) -> str:
    return str(error.args[0].str()) if isinstance(error, KafkaException) else str(error)


def _unreachable(bootstrap: str, said: list[KafkaError], patience: float) -> PipelineError:
    codes = {fault.code(): fault for fault in said}
    for code, words in REFUSALS.items():
        if code in codes:
            return PipelineError(f"{words.format(bootstrap)} ({_short(codes[code].str())})")
    reasons = [_short(fault.str()) for fault in said if fault.code() != KafkaError._ALL_BROKERS_DOWN]
    reason = f" ({reasons[0]})" if reasons else f" within {patience:g} s"
    return PipelineError(
        f"no broker answers at {bootstrap}{reason}: start one with 'ottla broker', or name one that runs"
    )


REFUSALS = {
    KafkaError._AUTHENTICATION: "the brokers at {} do not let us in: see the security settings",
    KafkaError._SSL: "there is no agreeing on TLS with the brokers at {}: see the security settings",
    KafkaError._RESOLVE: "the name of a broker in {} is not known",
}


def _short(text: str) -> str:
    """librdkafka's words without the name of its thread and what it counts."""
    found = re.search(r"(?:Connect to \S+ failed: |Failed to resolve )?([^:]+(?:: [^:()]+)?)(?: \(after .*)?$", text)
    return (found[0] if found else text).partition(" (after")[0].strip()


@dataclass(frozen=True)
class Identity:
    """Whose checkpoint a directory is."""

    application: str
    query: str
    topics: tuple[str, ...]
    fingerprint: str


def check_checkpoint(directory: str, mine: Identity) -> Identity | None:
    """The identity that lies in the directory: of the same query, or None where there is none yet.

    A directory that is another's, or that holds something else, is refused. What a changed fingerprint means is the
    caller's to say.
    """
    path = _local(directory)
    if path is None or not path.exists():
        return None
    if not path.is_dir():
        raise PipelineError(f"the checkpoint {directory} is a file: name a directory")
    theirs = _identity(path)
    if theirs is None:
        strange = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
        if any(name in strange for name in SPARKS):
            raise PipelineError(
                f"the checkpoint {directory} is of a Spark query that is not {mine.application}'s {mine.query}: "
                "name another directory"
            )
        if strange:
            raise PipelineError(
                f"the checkpoint {directory} is a directory with other things in it ({', '.join(strange[:3])}): "
                "name an empty one"
            )
        return None
    if (theirs.application, theirs.query) != (mine.application, mine.query):
        raise PipelineError(
            f"the checkpoint {directory} is of application {theirs.application}, query {theirs.query}, and not of "
            f"application {mine.application}, query {mine.query}: name another directory"
        )
    _check_spark(path, directory)
    return theirs


def claimed(directory: Path) -> list[Identity]:
    """Whose the checkpoints are that lie in a directory."""
    found = [_identity(path) for path in sorted(directory.iterdir()) if path.is_dir()] if directory.is_dir() else []
    return [one for one in found if one is not None]


def claim_checkpoint(directory: str, mine: Identity) -> None:
    """Write down whose checkpoint it is, whole or not at all."""
    path = _local(directory)
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path, prefix=".ottla")
        with os.fdopen(handle, "w") as file:
            json.dump(asdict(mine), file)
        os.replace(name, path / IDENTITY)
    except OSError as error:
        raise PipelineError(f"the checkpoint {directory} cannot be written: {error.strerror}") from None


def _identity(path: Path) -> Identity | None:
    file = path / IDENTITY
    try:
        said = json.loads(file.read_text())
        known = {field.name: said[field.name] for field in fields(Identity)}
        return Identity(**{**known, "topics": tuple(known["topics"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise PipelineError(
            f"the checkpoint {path} is damaged: {IDENTITY} does not say whose it is. "
            "Name another directory, or reset the application"
        ) from None


def _check_spark(path: Path, directory: str) -> None:
    """Spark's own file of the query is whole; Spark would begin a new query in silence where it is empty."""
    metadata = path / "metadata"
    if not metadata.exists():
        if any((path / name).is_dir() and any((path / name).iterdir()) for name in ("offsets", "commits")):
            raise PipelineError(
                f"the checkpoint {directory} is damaged: its file metadata is gone. Reset the application"
            )
        return
    try:
        if "id" in json.loads(metadata.read_text()):
            return
    except (OSError, ValueError, TypeError):
        pass
    raise PipelineError(f"the checkpoint {directory} is damaged: its file metadata is no JSON. Reset the application")


def _local(directory: str) -> Path | None:
    """The directory's path where it is on this machine; other file systems (hdfs://, s3a://) are Spark's to look at."""
    parsed = urlparse(directory)
    if parsed.scheme in ("", "file"):
        return Path(unquote(parsed.path) if parsed.scheme else directory)
    return None
