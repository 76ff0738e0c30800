"""The Streams DSL on Spark: what Kafka Streams is to Java, for Python.

from ottla.streams import App, Text

app = App("shout", bootstrap="localhost:9092")
app.stream("lines", value=Text).map_values("upper(value)").to("shouts")
app.run()
"""

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.poison import DeadLetters, fail, skip
from ottla.pipelines.serdes import (
    Avro,
    Bool,
    Bytes,
    Double,
    Float,
    Int,
    Json,
    Long,
    Serde,
    Short,
    Text,
    Windowed,
    WindowedKey,
)
from ottla.streams.aggregate_functions import top_n
from ottla.streams.app import App
from ottla.streams.functions import native
from ottla.streams.processors import Context, Processor
from ottla.streams.steps import Record
from ottla.streams.stream import Stream
from ottla.streams.table import GlobalTable, Table
from ottla.streams.types import Auto
from ottla.streams.windows import hopping, session, sliding, tumbling, within

__all__ = [
    "App",
    "Auto",
    "Avro",
    "Bool",
    "Bytes",
    "Context",
    "DeadLetters",
    "Double",
    "Float",
    "GlobalTable",
    "Int",
    "Json",
    "Long",
    "PipelineError",
    "Processor",
    "Record",
    "Serde",
    "Short",
    "Stream",
    "Table",
    "Text",
    "Windowed",
    "WindowedKey",
    "fail",
    "hopping",
    "native",
    "session",
    "skip",
    "sliding",
    "top_n",
    "tumbling",
    "within",
]
