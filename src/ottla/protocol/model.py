"""Classes of messages, made from their schemas on first use.

A class has one slot per field of any version, a keyword-only constructor with the schema's defaults, equality by value
and a repr that leaves out what has its default. Nested structs are attributes of the message's class, by the name the
table gives them: `MetadataResponse.Topic`. `SCHEMA` is the message's schema, `STRUCT` the struct of this very class.

Constructor and equality are compiled when they are first called: a broker that starts has a hundred classes by name and
makes objects of a few.
"""

from ottla.protocol.schema import Field, Schema, Struct, schema_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar


class _Unset:
    __slots__ = ()

    def __repr__(self) -> str:
        return "..."


UNSET = _Unset()  # a constructor's default for what must be made anew each time: lists and structs


class Message:
    """Base of all message and struct classes."""

    __slots__: tuple[str, ...] = ()
    SCHEMA: "ClassVar[Schema]"
    STRUCT: "ClassVar[Struct]"

    def __repr__(self) -> str:
        cls = self.__class__
        default = cls()
        shown = []
        for name in cls.__slots__:
            value = getattr(self, name)
            if value != getattr(default, name):
                shown.append(f"{name}={bytes(value) if isinstance(value, memoryview) else value!r}")
        return f"{cls.__qualname__}({', '.join(shown)})"


_classes: dict[str, type[Message]] = {}


def message_class(name: str) -> type[Message]:
    """The class of a message, with its structs as attributes. Raises UnknownMessage."""
    cls = _classes.get(name)
    if cls is None:
        schema = schema_of(name)
        names: dict[str, object] = {"UNSET": UNSET}  # what the constructors see; filled before any of them runs
        structs = [_make(schema, struct, f"{name}.{struct.name}", names) for struct in schema.structs.values()]
        cls = _make(schema, schema.root, name, names)
        for struct in structs:
            names[struct.__name__] = struct
            setattr(cls, struct.__name__, struct)
        _classes[name] = cls
    return cls


def default_expression(field: Field) -> str:
    """Python text that makes the field's default; a struct is called by its name."""
    if field.struct is not None and field.default is field.struct:
        return f"{field.struct.name}()"
    return "[]" if field.default == () else repr(field.default)


def _make(schema: Schema, struct: Struct, qualname: str, names: dict[str, object]) -> type[Message]:
    def complete() -> "dict[str, Callable[..., Any]]":
        methods = _compile(struct, qualname, names)
        for method in methods.items():
            setattr(cls, *method)
        return methods

    def first_init(self: Message, **values: object) -> None:
        complete()["__init__"](self, **values)

    def first_equal(self: Message, other: object) -> object:
        return complete()["__eq__"](self, other)

    cls = type(
        qualname.rpartition(".")[2],
        (Message,),
        {
            "__slots__": tuple(field.name for field in struct.fields),
            "__init__": first_init,
            "__eq__": first_equal,
            "__hash__": None,
            "__module__": "ottla.protocol.messages",
            "__qualname__": qualname,
            "SCHEMA": schema,
            "STRUCT": struct,
        },
    )
    return cls


def _compile(struct: Struct, qualname: str, names: dict[str, object]) -> "dict[str, Callable[..., Any]]":
    """The methods `__init__` and `__eq__`."""
    parameters, body, equal = [], [], ["other.__class__ is self.__class__"]
    for field in struct.fields:
        default = default_expression(field)
        if default == "[]" or default.endswith("()"):
            parameters.append(f"{field.name}=UNSET")
            body.append(f"    self.{field.name} = {default} if {field.name} is UNSET else {field.name}")
        else:
            parameters.append(f"{field.name}={default}")
            body.append(f"    self.{field.name} = {field.name}")
        equal.append(f"self.{field.name} == other.{field.name}")
    source = "\n".join(
        [
            f"def __init__(self{', *, ' if parameters else ''}{', '.join(parameters)}):",
            *(body or ["    pass"]),
            "def __eq__(self, other):",
            f"    return {' and '.join(equal)}",
        ]
    )
    methods: dict[str, Callable[..., Any]] = {}
    exec(compile(source, f"<{qualname}>", "exec"), names, methods)
    return methods
