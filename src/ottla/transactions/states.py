"""The states of a transactional id, and the ways between them (KIP-98).

    EMPTY             a producer has come; no transaction
    ONGOING           a partition was added, and perhaps more since
    PREPARE_COMMIT    decided: it is committed; markers are being written
    PREPARE_ABORT     decided: it is aborted; markers are being written
    COMPLETE_COMMIT   all markers are written
    COMPLETE_ABORT    the same
    DEAD              forgotten for its age

Once a PREPARE state is in the log, there is no way back: whoever takes over writes the rest of the markers.
"""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """With the numbers of the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def title(self) -> str:
        """As requests name it: `PrepareCommit`."""
        return self.name.title().replace("_", "")


EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD = State

FROM: dict[State, tuple[State, ...]] = {
    EMPTY: (ONGOING, COMPLETE_ABORT, EMPTY, DEAD),
    ONGOING: (ONGOING, PREPARE_COMMIT, PREPARE_ABORT),
    PREPARE_COMMIT: (COMPLETE_COMMIT,),
    PREPARE_ABORT: (COMPLETE_ABORT,),
    COMPLETE_COMMIT: (EMPTY, ONGOING, COMPLETE_ABORT, DEAD),
    COMPLETE_ABORT: (EMPTY, ONGOING, COMPLETE_ABORT, DEAD),
    DEAD: (),
}

BEING_ENDED = (PREPARE_COMMIT, PREPARE_ABORT)
AT_REST = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)

# PrepareEpochFence (7) is a state that older brokers may have written; it goes on as what it was on the way to
IN_LOG = {int(state): state for state in State} | {7: PREPARE_ABORT}


TITLES = frozenset(state.title for state in State) | {"PrepareEpochFence"}
