"""Every message of the tables as a class, made when it is first asked for.

    from ottla.protocol.messages import MetadataRequest, MetadataResponse

What a type checker sees is in messages.pyi, which `python -m ottla.protocol.stubs` writes from the tables.
"""

from ottla.protocol.model import Message, message_class
from ottla.protocol.schema import UnknownMessage, message_names


def __getattr__(name: str) -> type[Message]:
    if name[:1].isupper():
        try:
            cls = globals()[name] = message_class(name)
        except UnknownMessage as error:
            raise AttributeError(str(error)) from None
        return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return ["Message", *message_names()]
