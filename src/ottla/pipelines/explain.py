"""What went wrong in Spark, in one line for the person who runs the query: the fault itself, found inside Spark's text.

A failed task reaches the driver as text within text: the name of the exception, its message, the stack of the executor,
the stack of the driver. Faults of ours carry a name to look for; of Spark's own the common ones are put in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ottla.pipelines.errors import PipelineError

OURS = re.compile(r"ottla\.(?:Rejected|SinkFailure): (?:ottla\.SinkFailure: )?(.+)")
RAISED = re.compile(r"OTTLA: (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
NOT_THEIRS = re.compile(r"/pyspark/|pyspark\.zip|/ottla/(?:pipelines|streams)/")  # a checkout may be called ottla, too
PYTHON = re.compile(r"^(?:\w+\.)*(PipelineError|\w*(?:Error|Exception|Interrupt|Exit|Warning)): ?(.*)$", re.MULTILINE)


def explain(error: BaseException, query: str | None = None) -> PipelineError:
    """The error that is to be shown for one that Spark raised; what is not known keeps Spark's own first line."""
    if isinstance(error, PipelineError):
        return error
    text = str(error)
    where = f"query {query}: " if query else ""
    return PipelineError(where + (_found(text) or _first_line(text) or type(error).__name__))


def _found(text: str) -> str | None:
    for ours in (OURS, RAISED):
        if found := ours.search(text):
            return found[1].strip()
    for pattern, words in KNOWN:
        if found := re.search(pattern, text, re.DOTALL):
            return words(found)
    if "PythonException" in text or "Traceback (most recent call last)" in text:
        return _of_python(text)
    return None


def _of_python(text: str) -> str | None:
    """The exception of a user's function and the line of theirs that raised it."""
    trace = text[text.rfind("Traceback (most recent call last)") :]
    raised = list(PYTHON.finditer(trace))
    if not raised:
        return None
    places = [
        (file, line)
        for file, line in re.findall(r'File "([^"]+)", line (\d+)', trace[: raised[0].start()])
        if not NOT_THEIRS.search(file)
    ]
    place = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return f"a Python function failed with {raised[0][1]}: {raised[0][2]}{place}"


def _column(found: re.Match[str]) -> str:
    name = found["name"].replace("`", "")
    return f"there is no column {name}; there are {_listed(found['others'])}"


def _field(found: re.Match[str]) -> str:
    return f"there is no field {found['name'].replace('`', '')}; there are {_listed(found['others'])}"


def _deleted(found: re.Match[str]) -> str:
    return f"there is no {found['names']} to read from any more: create it again, or reset the application"


def _lost(found: re.Match[str]) -> str:
    return (
        f"records of {found['names']} that the query had not read yet are gone (by retention, or the topic was made "
        "anew): reset the application, or read with options={'source.failOnDataLoss': 'false'}"
    )


def _listed(names: str) -> str:
    return ", ".join(re.findall(r"`([^`]+)`(?:,|$|\]|\.(?!`)|\s)", names.replace("`.`", "."))) or names.strip(" []")


KNOWN: list[tuple[str, Callable[[re.Match[str]], str]]] = [
    (
        r"\[UNRESOLVED_COLUMN\.WITH_SUGGESTION\].*?with name (?P<name>`.+?`) cannot be resolved\. "
        r"Did you mean one of the following\? (?P<others>\[.*?\])",
        _column,
    ),
    (
        r"\[UNRESOLVED_COLUMN\.WITHOUT_SUGGESTION\].*?with name (?P<name>`.+?`)",
        lambda found: f"there is no column {found['name'].replace('`', '')}",
    ),
    (r"\[FIELD_NOT_FOUND\] No such struct field (?P<name>`.+?`) in (?P<others>.+?)\. SQLSTATE", _field),
    (
        r"\[PARSE_SYNTAX_ERROR\] (?P<what>.+?)\. SQLSTATE.*?== SQL[^\n]*==\n(?P<sql>[^\n]*)",
        lambda found: f"{found['sql']!r} is no Spark SQL: {found['what']}",
    ),
    (
        r"\[UNRESOLVED_ROUTINE\].*?routine (?P<name>`.+?`)",
        lambda found: f"there is no function {found['name'].replace('`', '')} in Spark SQL",
    ),
    (r"\[DATATYPE_MISMATCH\.\w+\] (?P<what>.+?) SQLSTATE", lambda found: f"types do not fit: {found['what'].strip()}"),
    (r"\[CAST_INVALID_INPUT\] (?P<what>.+?)\. Correct", lambda found: f"a value does not fit: {found['what']}"),
    (r"\[CAST_OVERFLOW\] (?P<what>.+?)\. ", lambda found: f"a value does not fit: {found['what']}"),
    (r"Partitions Set\((?P<names>.*?)\) have been deleted", _deleted),
    (r"UnknownTopicOrPartitionException.*?Subscribe\[(?P<names>.*?)\]", _deleted),
    (
        r"Timeout of \d+ms expired before the position for partition (?P<names>\S+)",
        lambda found: f"{found['names']} cannot be read: its topic is gone, or the broker that has it does not answer",
    ),
    (r"Some data may have been lost.*?topic.partition (?P<names>\S+)", _lost),
    (
        r"Timed out waiting for a node assignment|Failed to create new KafkaAdminClient|No resolvable bootstrap",
        lambda found: "the brokers do not answer: see that they run and that bootstrap names them",
    ),
    (
        r"\[CONCURRENT_STREAM_LOG_UPDATE\]|Multiple streaming queries are concurrently using",
        lambda found: "another run of the query uses the same checkpoint: stop it first",
    ),
    (
        r"STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|\[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA\]",
        lambda found: "the state in the checkpoint is of another version of the query: reset the application",
    ),
]


def _first_line(text: str) -> str:
    """The fault without what Spark, py4j and Java put before it."""
    for before in WRAPPING:
        text = re.sub(before, "", text.strip(), count=1, flags=re.DOTALL)
    line = text.strip().partition("\n")[0].strip()
    return re.sub(r"\s*SQLSTATE: \w+\s*$", "", line)


WRAPPING = [
    r"^An error occurred while calling \S+\n: ",
    r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ",
    r"^Job aborted due to stage failure: .*?most recent failure: .*?\(.*? executor \w+\): ",
    r"^(?:[a-z]\w*\.)+[A-Z]\w*: ",
    r"^\[[A-Z][A-Z_.]+\] ",
]
