"""The newest offset of each key, for compaction, in a memory of known size: 24 bytes a key (A1 S-35, S-36).

    digests  16 bytes a slot: of the key, all zero when the slot is free
    offsets   8 bytes a slot

A key of up to 15 bytes is its own digest, padded, with its length at the end; a longer one is hashed to 16 bytes. Two
keys with one digest would be taken for one; with 128 bits that does not happen. Collisions of slots are resolved by
double hashing over a prime number of slots. The system gives memory as slots are touched.
"""

from __future__ import annotations

from hashlib import blake2b

DIGEST, ENTRY = 16, 24
LARGEST = (1 << 31) - 1  # slots: more than memory has
_OWN = DIGEST - 1
_ENDS = [bytes((length + 1,)) for length in range(DIGEST)]
_FREE = bytes(DIGEST)


class OffsetMap:
    __slots__ = ("_digests", "_offsets", "_slots", "_used", "limit")

    def __init__(self, memory: int, load_factor: float, keys: int = LARGEST) -> None:
        """A map within `memory` bytes, filled up to `load_factor`, for no more than `keys` keys."""
        slots = min(memory // ENTRY, LARGEST)
        wanted = int(keys / load_factor) + 2
        self._slots = slots = _prime(wanted, 1) if wanted < slots else _prime(slots, -1)
        self.limit = min(int(slots * load_factor), slots - 1)  # keys that it takes
        self._used = 0
        self._digests = bytearray(slots * DIGEST)
        self._offsets = memoryview(bytearray(slots * 8)).cast("q")

    def __len__(self) -> int:
        return self._used

    def put(self, key: bytes, offset: int) -> None:
        length = len(key)
        digest = key.ljust(_OWN, b"\0") + _ENDS[length] if length <= _OWN else blake2b(key, digest_size=DIGEST).digest()
        digests, slots = self._digests, self._slots
        number = hash(digest)
        slot = number % slots
        found = digests[slot * DIGEST : slot * DIGEST + DIGEST]
        if found != digest:
            step = 0
            while found != _FREE:
                if not step:
                    step = 1 + (number >> 20) % (slots - 1)
                slot = (slot + step) % slots
                found = digests[slot * DIGEST : slot * DIGEST + DIGEST]
                if found == digest:
                    break
            else:
                digests[slot * DIGEST : slot * DIGEST + DIGEST] = digest
                self._used += 1
        self._offsets[slot] = offset

    def get(self, key: bytes) -> int:
        """The newest offset of `key`; -1 when there is none."""
        length = len(key)
        digest = key.ljust(_OWN, b"\0") + _ENDS[length] if length <= _OWN else blake2b(key, digest_size=DIGEST).digest()
        digests, slots = self._digests, self._slots
        number = hash(digest)
        slot = number % slots
        found = digests[slot * DIGEST : slot * DIGEST + DIGEST]
        if found == digest:
            return self._offsets[slot]
        if found == _FREE:
            return -1
        step = 1 + (number >> 20) % (slots - 1)
        while True:
            slot = (slot + step) % slots
            found = digests[slot * DIGEST : slot * DIGEST + DIGEST]
            if found == digest:
                return self._offsets[slot]
            if found == _FREE:
                return -1


def _prime(number: int, direction: int) -> int:
    """The nearest prime from `number` on, upwards or downwards; at least 3."""
    number = max(number, 3) | 1
    while any(number % divisor == 0 for divisor in range(3, int(number**0.5) + 1, 2)):
        number += 2 * direction
    return number
