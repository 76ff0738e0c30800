"""The states of a classic group, and which may follow which.

Empty                 no members; it may have offsets
PreparingRebalance    members are joining; who does not in time is out
CompletingRebalance   all have joined; the leader works out who gets what
Stable                every member has its assignment, or can ask for it
Dead                  gone, while somebody still holds on to it

         first member joins             all joined, or time is up
Empty ----------------------> Preparing ------------------------> Completing
  ^                           ^    |  ^                           |       |
  |     time is up, nobody    |    |  | member joins, leaves      |       | leader has sent
  +---------------------------+----+  | or is lost                |       | the assignments
                                      +---------------------------+       v
                                      +-------------------------------- Stable
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY, PREPARING, COMPLETING, STABLE, DEAD = State

FOLLOWS: dict[State, frozenset[State]] = {
    EMPTY: frozenset((PREPARING, DEAD)),
    PREPARING: frozenset((EMPTY, COMPLETING, DEAD)),
    COMPLETING: frozenset((PREPARING, STABLE, DEAD)),
    STABLE: frozenset((PREPARING, DEAD)),
    DEAD: frozenset(),
}


class ImpossibleTransition(Exception):
    """A group was to go from one state to another that cannot follow it: a bug."""
