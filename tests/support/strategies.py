"""Hypothesis strategies for messages, made from the tables that the codec is made from."""

from hypothesis import strategies as st

from ottla.protocol.model import Message, message_class
from ottla.protocol.schema import Field, Struct

TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.just("x" * 127) | st.just("é" * 200)
SCALARS = {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": TEXT,
    "string16": TEXT,
    "bytes": st.binary(max_size=12) | st.just(b"b" * 300),
    "records": st.binary(max_size=12) | st.just(b"r" * 300),
}
for bits in (8, 16, 32, 64):
    SCALARS[f"int{bits}"] = st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def message_strategy(name, version, scalars=None):
    """Messages that version `version` can carry in full: fields it lacks hold their defaults.

    `scalars(field)` may give the strategy of a field's values instead of the one for its type."""
    cls = message_class(name)
    return struct_strategy(cls, cls, version, scalars or (lambda field: None))


def struct_strategy(cls: type[Message], part: type[Message], version: int, scalars) -> st.SearchStrategy:
    struct: Struct = part.STRUCT
    present = {f.name: field_strategy(cls, f, version, scalars) for f in struct.fields if f.present(version)}
    return st.builds(part, **present)


def field_strategy(cls: type[Message], field: Field, version: int, scalars) -> st.SearchStrategy:
    if field.struct is not None:
        strategy = struct_strategy(cls, getattr(cls, field.struct.name), version, scalars)
    else:
        strategy = scalars(field)
        if strategy is None:
            strategy = SCALARS[field.type]
    if field.array:
        strategy = st.lists(strategy, max_size=3 if field.struct is None else 2)
    if field.nullable_in(version):
        strategy = st.none() | strategy
    return strategy
