"""Handing out producer ids from blocks."""

from __future__ import annotations

import asyncio

import pytest

from ottla.controller.producer_ids import BLOCK_SIZE, PREFETCH_AT, ProducerIds


class Blocks:
    def __init__(self):
        self.given = 0
        self.fail = False

    async def __call__(self):
        await asyncio.sleep(0)
        if self.fail:
            raise OSError("no store")
        self.given += 1
        return (self.given - 1) * BLOCK_SIZE, BLOCK_SIZE


def test_the_first_id_waits_for_a_block_and_the_rest_are_there_at_once():
    async def story():
        blocks = Blocks()
        ids = ProducerIds(blocks)
        assert ids.take() is None
        assert await ids.wait() == 0
        assert [ids.take() for _ in range(100)] == list(range(1, 101))
        assert blocks.given == 1

    asyncio.run(story())


def test_the_next_block_is_fetched_before_the_current_one_is_used_up():
    async def story():
        blocks = Blocks()
        ids = ProducerIds(blocks)
        await ids.wait()
        for _ in range(BLOCK_SIZE - PREFETCH_AT):
            ids.take()
        await ids._fetching
        assert blocks.given == 2
        got = [ids.take() for _ in range(PREFETCH_AT + 10)]
        assert None not in got
        assert got == list(range(got[0], got[0] + len(got)))

    asyncio.run(story())


def test_many_who_wait_at_once_share_a_block_and_get_different_ids():
    async def story():
        blocks = Blocks()
        ids = ProducerIds(blocks)
        got = await asyncio.gather(*(ids.wait() for _ in range(1500)))
        assert sorted(got) == list(range(1500))
        assert blocks.given <= 3

    asyncio.run(story())


def test_a_failure_reaches_who_waits_and_the_next_try_works(caplog):
    async def story():
        blocks = Blocks()
        ids = ProducerIds(blocks)
        blocks.fail = True
        with pytest.raises(OSError, match="no store"):
            await ids.wait()
        blocks.fail = False
        assert await ids.wait() == 0

    asyncio.run(story())


def test_a_failed_fetch_ahead_is_logged_and_tried_again(caplog):
    async def story():
        blocks = Blocks()
        ids = ProducerIds(blocks)
        await ids.wait()
        blocks.fail = True
        for _ in range(BLOCK_SIZE - 2):
            assert ids.take() is not None
            await asyncio.sleep(0)
        blocks.fail = False
        got = [await ids.wait() for _ in range(5)]
        assert got[1:] == [1000, 1001, 1002, 1003]

    asyncio.run(story())
    assert "no block of producer ids" in caplog.text
