"""The stores on which the interface's tests run. A new form of the store is one more entry of FORMS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import pytest

from ottla.coordination.local import LocalStore
from ottla.coordination.store import Store


class Session(Protocol):
    """Opens a new session on the same tree each time it is called."""

    async def __call__(self) -> Store: ...


def local_form(directory: Path) -> Session:
    async def session() -> Store:
        return await LocalStore.open(directory / "coordination.db")

    return session


FORMS: dict[str, Callable[[Path], Session]] = {"local": local_form}


@pytest.fixture(params=FORMS)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    return FORMS[request.param](tmp_path)


@pytest.fixture
def on_store(session: Session) -> Callable[[Callable[[Store], Awaitable[None]]], None]:
    """Runs a coroutine function with an open store, and closes the store behind it."""

    def run(story: Callable[[Store], Awaitable[None]]) -> None:
        async def whole() -> None:
            store = await session()
            try:
                await story(store)
            finally:
                await store.close()

        asyncio.run(whole())

    return run
