"""What every form of the store promises. Runs on each form that conftest.py lists."""

from __future__ import annotations

import asyncio

import pytest

from ottla.coordination.store import (
    BadPath,
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    Event,
    EventKind,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Set,
    StoreClosed,
    ensure,
)


def test_a_node_holds_its_data_at_version_zero(on_store):
    async def story(store):
        await store.create("/a", b"one")
        assert await store.get("/a") == Node(b"one", 0, False)

    on_store(story)


def test_each_set_raises_the_version_by_one(on_store):
    async def story(store):
        await store.create("/a")
        assert await store.set("/a", b"1") == 1
        assert await store.set("/a", b"2") == 2
        assert await store.get("/a") == Node(b"2", 2)

    on_store(story)


def test_a_recreated_node_starts_at_version_zero_again(on_store):
    async def story(store):
        await store.create("/a")
        await store.set("/a", b"x")
        await store.delete("/a")
        await store.create("/a", b"y")
        assert await store.get("/a") == Node(b"y", 0)

    on_store(story)


def test_creating_twice_is_refused_and_keeps_the_first(on_store):
    async def story(store):
        await store.create("/a", b"first")
        with pytest.raises(NodeExists) as error:
            await store.create("/a", b"second")
        assert error.value.path == "/a"
        assert (await store.get("/a")).data == b"first"

    on_store(story)


def test_a_child_needs_its_parent(on_store):
    async def story(store):
        with pytest.raises(NoNode) as error:
            await store.create("/a/b")
        assert error.value.path == "/a"

    on_store(story)


def test_reading_writing_or_deleting_what_is_not_there_is_refused(on_store):
    async def story(store):
        for call in (store.get("/a"), store.set("/a", b""), store.delete("/a"), store.children("/a")):
            with pytest.raises(NoNode, match="/a does not exist"):
                await call
        assert not await store.exists("/a")
        assert await store.subtree("/a") == {}

    on_store(story)


def test_a_conditional_set_or_delete_needs_the_right_version(on_store):
    async def story(store):
        await store.create("/a")
        await store.set("/a", b"x", 0)
        with pytest.raises(BadVersion) as error:
            await store.set("/a", b"y", 0)
        assert (error.value.expected, error.value.actual) == (0, 1)
        with pytest.raises(BadVersion):
            await store.delete("/a", 0)
        await store.delete("/a", 1)
        assert not await store.exists("/a")

    on_store(story)


def test_a_node_with_children_is_not_deleted(on_store):
    async def story(store):
        await store.create("/a")
        await store.create("/a/b")
        with pytest.raises(NotEmpty):
            await store.delete("/a")
        await store.delete("/a/b")
        await store.delete("/a")

    on_store(story)


def test_the_root_holds_data_and_is_never_made_or_deleted(on_store):
    async def story(store):
        assert await store.exists("/")
        assert await store.set("/", b"top") == (await store.get("/")).version
        assert (await store.get("/")).data == b"top"
        with pytest.raises(BadPath):
            await store.delete("/")
        with pytest.raises(BadPath):
            await store.create("/")

    on_store(story)


def test_children_are_names_in_order(on_store):
    async def story(store):
        for path in ("/a", "/a/c", "/a/b", "/a/b/deep", "/ab", "/a.b"):
            await store.create(path)
        assert await store.children("/a") == ["b", "c"]
        assert await store.children("/a/c") == []
        assert set(await store.children("/")) >= {"a", "ab", "a.b"}

    on_store(story)


def test_a_subtree_is_the_node_and_all_below_it_parents_first(on_store):
    async def story(store):
        for path in ("/a", "/a/c", "/a/b", "/a/b/deep", "/a/b.", "/a/b./x", "/a/b0", "/ab", "/a.b", "/a0"):
            await store.create(path, path.encode())
        found = await store.subtree("/a")
        assert found == {
            path: Node(path.encode(), 0) for path in ("/a", "/a/b", "/a/c", "/a/b/deep", "/a/b.", "/a/b./x", "/a/b0")
        }
        seen = set()
        for path in found:
            assert path == "/a" or path.rpartition("/")[0] in seen
            seen.add(path)
        assert set(await store.subtree("/")) >= {"/", "/ab", "/a/b/deep"}

    on_store(story)


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a//b", "/a/.", "/a/..", "/a\0b"])
def test_a_path_that_names_no_node_is_refused(on_store, path):
    async def story(store):
        with pytest.raises(BadPath):
            await store.create(path)
        with pytest.raises(BadPath):
            await store.get(path)
        with pytest.raises(BadPath):
            store.watch(path, print)

    on_store(story)


def test_names_and_data_may_hold_any_text_and_bytes(on_store):
    async def story(store):
        data = bytes(range(256)) * 40
        await store.create("/äöü 漢字 %_'\"", data)
        assert (await store.get("/äöü 漢字 %_'\"")).data == data

    on_store(story)


def test_multi_does_all_in_order(on_store):
    async def story(store):
        await store.create("/old", b"")
        await store.multi(
            [
                Create("/a"),
                Create("/a/b", b"1"),
                Set("/a/b", b"2"),
                Check("/a/b", 1),
                Delete("/old"),
                Create("/old", b"new"),
            ]
        )
        assert await store.get("/a/b") == Node(b"2", 1)
        assert await store.get("/old") == Node(b"new", 0)

    on_store(story)


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        (Create("/there"), NodeExists),
        (Create("/gone/child"), NoNode),
        (Set("/there", b"", 7), BadVersion),
        (Delete("/parent"), NotEmpty),
        (Check("/there", 7), BadVersion),
        (Check("/gone"), NoNode),
    ],
)
def test_multi_does_nothing_if_one_operation_fails(on_store, failing, error):
    async def story(store):
        for path in ("/there", "/parent", "/parent/child"):
            await store.create(path)
        before = await store.subtree("/")
        with pytest.raises(error):
            await store.multi(
                [
                    Create("/new"),
                    Set("/there", b"x"),
                    Delete("/parent/child"),
                    Create("/parent/child"),
                    failing,
                    Create("/newer"),
                ]
            )
        assert await store.subtree("/") == before
        await store.create("/usable")  # no half-open transaction is left

    on_store(story)


def test_a_deleted_parent_takes_no_child_later_in_the_same_multi(on_store):
    async def story(store):
        with pytest.raises(NoNode):
            await store.multi([Create("/a"), Create("/a/b"), Delete("/a/b"), Delete("/a"), Create("/a/b")])
        assert not await store.exists("/a")

    on_store(story)


def test_an_empty_multi_is_allowed(on_store):
    async def story(store):
        await store.multi([])

    on_store(story)


def test_of_many_conditional_sets_at_once_exactly_one_wins(on_store):
    async def story(store):
        await store.create("/a")
        results = await asyncio.gather(*(store.set("/a", b"%d" % n, 0) for n in range(20)), return_exceptions=True)
        assert results.count(1) == 1
        assert sum(isinstance(result, BadVersion) for result in results) == 19

    on_store(story)


def test_calls_take_effect_in_the_order_in_which_they_were_made(on_store):
    async def story(store):
        await store.create("/a")
        await asyncio.gather(*(store.set("/a", b"%d" % n) for n in range(50)))
        assert await store.get("/a") == Node(b"49", 50)

    on_store(story)


def test_persistent_nodes_outlive_the_session_and_ephemeral_ones_do_not(session):
    async def story():
        first = await session()
        await first.create("/stays", b"x")
        await first.set("/stays", b"y")
        await first.create("/goes", ephemeral=True)
        assert (await first.get("/goes")).ephemeral
        await first.close()
        second = await session()
        assert await second.get("/stays") == Node(b"y", 1)
        assert not await second.exists("/goes")
        await second.close()

    asyncio.run(story())


def test_an_ephemeral_node_has_no_children(on_store):
    async def story(store):
        await store.create("/a", ephemeral=True)
        with pytest.raises(EphemeralParent):
            await store.create("/a/b")
        with pytest.raises(EphemeralParent):
            await store.multi([Create("/c", ephemeral=True), Create("/c/d")])

    on_store(story)


def test_a_closed_store_refuses_calls_and_closes_twice(session):
    async def story():
        store = await session()
        pending = asyncio.ensure_future(store.create("/a"))
        await asyncio.sleep(0)
        await store.close()
        await pending  # made before the close, so it is finished
        with pytest.raises(StoreClosed):
            await store.get("/a")
        await store.close()

    asyncio.run(story())


def test_a_watch_hears_of_each_change_of_its_node_and_of_its_children(on_store):
    async def story(store):
        heard = []
        store.watch("/a", heard.append)
        await store.create("/a")
        await store.set("/a", b"x")
        await store.create("/a/b")
        await store.set("/a/b", b"not of /a")
        await store.create("/a/b/c")
        await store.delete("/a/b/c")
        await store.delete("/a/b")
        await store.delete("/a")
        kinds = [EventKind.CREATED, EventKind.CHANGED, EventKind.CHILDREN, EventKind.CHILDREN, EventKind.DELETED]
        assert heard == [Event(kind, "/a") for kind in kinds]

    on_store(story)


def test_a_watch_hears_before_the_call_that_made_the_change_returns(on_store):
    async def story(store):
        order = []
        store.watch("/a", lambda event: order.append(event.kind))
        await store.create("/a")
        order.append("returned")
        assert order == [EventKind.CREATED, "returned"]

    on_store(story)


def test_a_failed_write_is_not_heard_of(on_store):
    async def story(store):
        heard = []
        store.watch("/a", heard.append)
        with pytest.raises(NodeExists):
            await store.multi([Create("/a"), Create("/a")])
        assert heard == []

    on_store(story)


def test_children_changed_by_one_multi_are_heard_of_once(on_store):
    async def story(store):
        await store.create("/a")
        heard = []
        store.watch("/a", heard.append)
        await store.multi([Create(f"/a/{n}") for n in range(5)])
        assert heard == [Event(EventKind.CHILDREN, "/a")]

    on_store(story)


def test_a_cancelled_watch_hears_nothing_more(on_store):
    async def story(store):
        heard, other = [], []
        watch = store.watch("/a", heard.append)
        store.watch("/a", other.append)
        await store.create("/a")
        watch.cancel()
        watch.cancel()
        await store.set("/a", b"x")
        assert [len(heard), len(other)] == [1, 2]

    on_store(story)


def test_a_watch_that_cancels_its_neighbour_keeps_it_quiet(on_store):
    async def story(store):
        heard = []
        store.watch("/a", lambda event: second.cancel())
        second = store.watch("/a", heard.append)
        await store.create("/a")
        assert heard == []

    on_store(story)


def test_a_watch_that_fails_disturbs_nobody(on_store, caplog):
    async def story(store):
        heard = []
        store.watch("/a", lambda event: 1 / 0)
        store.watch("/a", heard.append)
        await store.create("/a")
        assert heard == [Event(EventKind.CREATED, "/a")]

    on_store(story)
    assert "ZeroDivisionError" in caplog.text


def test_a_cancelled_write_still_reaches_the_watches(on_store):
    async def story(store):
        heard = []
        store.watch("/a", heard.append)
        task = asyncio.ensure_future(store.create("/a"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await store.exists("/a")
        assert heard == [Event(EventKind.CREATED, "/a")]

    on_store(story)


def test_ensure_makes_what_is_missing_and_leaves_the_rest(on_store):
    async def story(store):
        await store.create("/a", b"kept")
        await ensure(store, "/a/b/c")
        await ensure(store, "/a/b/c")
        assert (await store.get("/a")).data == b"kept"
        assert await store.children("/a/b") == ["c"]

    on_store(story)
