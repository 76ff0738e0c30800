"""The few variable-length pieces that the hand-written readers and writers of Produce and Fetch share."""

from __future__ import annotations

from ottla.protocol.codec import write_varint
from ottla.protocol.errors import MalformedMessage

LONGEST_TEXT = 32768  # the longest text that the protocol has, plus 1, as it stands before the text

_SMALL = [bytes((number,)) for number in range(128)]


def read_unsigned(frame: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, and the position behind it. IndexError when the frame ends."""
    byte = frame[position]
    if byte < 128:
        return byte, position + 1
    number, shift = byte & 0x7F, 7
    while True:
        position += 1
        byte = frame[position]
        number |= (byte & 0x7F) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise MalformedMessage("a varint of more than five bytes")
    if number > 0xFFFFFFFF:
        raise MalformedMessage("a varint of more than 32 bits")
    return number, position + 1


def unsigned(number: int) -> bytes:
    return _SMALL[number] if number < 128 else write_varint(number)


def skip_tags(frame: memoryview, position: int) -> int:
    """Behind a section of tagged fields, none of which we know."""
    count, position = read_unsigned(frame, position)
    previous = -1
    for _ in range(count):
        tag, position = read_unsigned(frame, position)
        if tag <= previous:
            raise MalformedMessage(f"tag {tag} after {previous}")
        previous = tag
        size, position = read_unsigned(frame, position)
        position += size
        if position > len(frame):
            raise MalformedMessage(f"tag {tag} of {size} bytes")
    return position
