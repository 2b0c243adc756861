from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.runtime.virtual import run_virtual
from trainsweep.runtime.workqueue import MAX_AHEAD, WorkQueue, backoff_seconds


def now() -> float:
    return asyncio.get_running_loop().time()


async def serve(
    queue: WorkQueue[str], work: Callable[[str], Awaitable[None]], seconds: float, workers: int = 1
) -> None:
    tasks = [asyncio.create_task(queue.clock())]
    tasks += [asyncio.create_task(queue.worker(work)) for _ in range(workers)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_adds_collapse_while_a_key_waits() -> None:
    async def body() -> None:
        queue: WorkQueue[str] = WorkQueue()
        done: list[str] = []

        async def work(key: str) -> None:
            done.append(key)

        for _ in range(5):
            queue.add("a")
        queue.add("b")
        assert len(queue) == 2
        await serve(queue, work, 1)
        assert done == ["a", "b"]
        assert len(queue) == 0

    run_virtual(body())


def test_a_key_is_never_worked_on_twice_at_once_and_an_add_meanwhile_gives_one_more_pass() -> None:
    async def body() -> None:
        queue: WorkQueue[str] = WorkQueue()
        active, most, passes = 0, 0, 0

        async def work(key: str) -> None:
            nonlocal active, most, passes
            active += 1
            most = max(most, active)
            passes += 1
            if passes == 1:
                for _ in range(3):
                    await asyncio.sleep(1)
                    queue.add(key)
            active -= 1

        queue.add("a")
        await serve(queue, work, 60, workers=4)
        assert (most, passes) == (1, 2)

    run_virtual(body())


def test_wake_ups_are_exact_and_the_earliest_wins() -> None:
    async def body() -> None:
        queue: WorkQueue[str] = WorkQueue()
        seen: list[tuple[str, float]] = []

        async def work(key: str) -> None:
            seen.append((key, now()))

        queue.add_after("a", 50)
        queue.add_after("a", 20)
        queue.add_after("a", 30)
        queue.add_after("b", 10)
        await serve(queue, work, 200)
        assert seen == [("b", 10.0), ("a", 20.0)]

    run_virtual(body())


def test_a_wake_up_is_never_further_ahead_than_five_minutes() -> None:
    async def body() -> None:
        queue: WorkQueue[str] = WorkQueue()
        seen: list[float] = []

        async def work(_: str) -> None:
            seen.append(now())

        queue.add_after("a", 86_400)
        await serve(queue, work, 301)
        assert seen == [MAX_AHEAD]

    run_virtual(body())


def test_failures_back_off_by_key_and_success_forgets_them() -> None:
    async def body() -> None:
        queue: WorkQueue[str] = WorkQueue(draw=lambda: 0.0)
        seen: list[float] = []

        async def work(key: str) -> None:
            seen.append(now())
            if len(seen) in (4, 6):
                queue.succeeded(key)
            if len(seen) < 6:
                queue.retry(key)

        queue.add("a")
        await serve(queue, work, 400)
        assert seen == [0.0, 1.0, 3.0, 7.0, 8.0, 10.0]
        assert queue.retry("b", at_least=17.0) == 17.0
        assert queue.retry("c", at_least=10_000.0) == MAX_AHEAD

    run_virtual(body())


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_backoff_is_bounded_and_jittered(failures: int, drawn: float) -> None:
    pause = backoff_seconds(failures, initial=1.0, longest=300.0, draw=lambda: drawn)
    full = min(300.0, 2.0 ** min(failures - 1, 32))
    assert full / 2 <= pause <= full


def test_a_dropped_key_is_not_woken() -> None:
    async def body() -> None:
        queue: WorkQueue[str] = WorkQueue()
        seen: list[str] = []

        async def work(key: str) -> None:
            seen.append(key)

        queue.add_after("a", 5)
        queue.drop("a")
        assert queue.delayed == 0
        await serve(queue, work, 30)
        assert seen == []

    run_virtual(body())


def test_one_slow_key_does_not_delay_others_with_a_free_worker_and_waits_are_measured() -> None:
    async def body() -> None:
        waits: list[float] = []
        queue: WorkQueue[str] = WorkQueue(on_wait=waits.append)
        finished: dict[str, float] = {}

        async def work(key: str) -> None:
            await asyncio.sleep(100 if key == "slow" else 1)
            finished[key] = now()

        for key in ("slow", "a", "b", "c"):
            queue.add(key)
        tasks = [asyncio.create_task(queue.worker(work)) for _ in range(2)]
        await asyncio.sleep(1.5)
        assert queue.oldest_wait() == 1.5
        await asyncio.sleep(200)
        for task in tasks:
            task.cancel()
        assert finished == {"slow": 100.0, "a": 1.0, "b": 2.0, "c": 3.0}
        assert waits == [0.0, 0.0, 1.0, 2.0]
        assert queue.oldest_wait() == 0.0

    run_virtual(body())


def test_the_clock_ends_when_it_is_cancelled_in_the_moment_of_a_wake_up() -> None:
    """`asyncio.wait_for` would swallow such a cancellation before Python 3.12, and the process would not end."""

    async def body() -> None:
        queue: WorkQueue[str] = WorkQueue()
        clock = asyncio.create_task(queue.clock())
        queue.add_after("a", 100)
        await asyncio.sleep(1)
        queue.add_after("b", 10)
        await asyncio.sleep(0)
        clock.cancel()
        await asyncio.wait({clock}, timeout=5)
        assert clock.cancelled()

    run_virtual(body())
