"""Leader election: one leader, and nobody spends on a guess."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cluster.lease import DURATION, SPENDING, Lease
from controller.cluster.protocol import ClusterError
from controller.domain.names import LEASE
from tests.cluster.scripted import Clock, failure


class Server:
    """One Lease object with versions; `down` makes it unreachable, `lossy` loses answers of applied writes."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down: set[str] = set()
        self.lossy = False
        self.writes: list[tuple[str, str]] = []

    def for_client(self, name: str) -> Client:
        return Client(self, name)

    def handle(self, method: str, body: Any) -> dict[str, Any]:
        if method == "GET":
            if self.lease is None:
                raise failure(404)
            return self.lease
        if method == "POST" and self.lease is not None:
            raise failure(409)
        if method == "PUT" and (
            self.lease is None or body["metadata"]["resourceVersion"] != str(self.version)
        ):
            raise failure(409)
        self.version += 1
        self.lease = json.loads(json.dumps(body))
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        self.writes.append((method, body["spec"]["holderIdentity"]))
        return self.lease


class Client:
    def __init__(self, server: Server, name: str) -> None:
        self.server, self.name = server, name
        self.asked: list[str] = []
        self.patience: list[float] = []
        self.silent_until = 0.0  # by `clock`: no request is answered before
        self.clock: Clock | None = None

    async def request(
        self, method: str, path: str, *, body: Any = None, timeout: float = 0.0, **more: Any
    ) -> bytes:
        self.asked.append(method)
        self.patience.append(timeout)
        if self.clock is not None and self.clock() < self.silent_until:
            self.clock.pass_(timeout)
            raise ClusterError("unreachable", "time-out")
        assert path.startswith("/apis/coordination.k8s.io/v1/namespaces/gpu/leases")
        if self.name in self.server.down:
            raise ClusterError("unreachable", "nobody there")
        found = self.server.handle(method, body)
        if self.server.lossy and method != "GET":
            raise ClusterError("unreachable", "the answer was lost")
        return json.dumps(found).encode()

    def stream(self, path: str, **more: Any) -> Any:
        raise AssertionError("a lease is not watched")


def contender(server: Server, name: str, clock: Clock) -> tuple[Lease, list[bool], Client]:
    told: list[bool] = []
    client = server.for_client(name)
    lease = Lease(
        client, namespace="gpu", identity=name, clock=clock, wall=clock.wall, sleep=clock.sleep,
        rng=random.Random(1), on_change=told.append,
    )  # fmt: skip
    return lease, told, client


async def test_the_first_one_creates_the_lease_and_holds_it() -> None:
    server, clock = Server(), Clock()
    lease, told, _ = contender(server, "a", clock)
    assert not lease.may_spend()
    assert await lease.step() == 5.0
    assert lease.held
    assert lease.may_spend()
    assert told == [True]
    assert server.lease is not None
    assert server.lease["metadata"]["name"] == LEASE
    spec = server.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)
    assert len(spec["renewTime"]) == len("2026-01-01T00:00:00.000000Z")


async def test_renewing_is_one_write_and_keeps_the_time_of_acquiring() -> None:
    server, clock = Server(), Clock()
    lease, _, client = contender(server, "a", clock)
    await lease.step()
    assert server.lease is not None
    acquired = server.lease["spec"]["acquireTime"]
    client.asked.clear()
    clock.pass_(5)
    await lease.step()
    assert client.asked == ["PUT"]
    assert server.lease["spec"]["acquireTime"] == acquired
    assert server.lease["spec"]["renewTime"] > acquired


async def test_a_longer_lease_is_one_only_when_the_others_can_know() -> None:
    """Settings change, and before the next renewal the leader is cut off: the other one waits as long as it was told."""
    server, clock = Server(), Clock()
    first, _, _ = contender(server, "a", clock)
    second, _, _ = contender(server, "b", clock)
    await first.step()
    await second.step()
    first.change(duration=90.0, renew=10.0, spend_within=60.0)
    server.down.add("a")
    for _ in range(30):
        clock.pass_(2)
        await first.step()
        await second.step()
        assert not (first.may_spend() and second.may_spend())
    assert second.may_spend()


async def test_a_longer_lease_holds_from_the_next_renewal_and_a_shorter_one_at_once() -> None:
    server, clock = Server(), Clock()
    lease, _, _ = contender(server, "a", clock)
    await lease.step()
    lease.change(duration=90.0, renew=10.0, spend_within=60.0)
    await lease.step()
    assert server.lease is not None
    assert server.lease["spec"]["leaseDurationSeconds"] == 90
    clock.pass_(59)
    assert lease.may_spend()
    lease.change(duration=15.0, renew=5.0, spend_within=10.0)
    assert not lease.may_spend()


async def test_a_second_one_waits_for_the_end_by_its_own_clock() -> None:
    server, clock, other_clock = Server(), Clock(), Clock(now=50, wall=9e8)  # its wall clock is far off
    first, _, _ = contender(server, "a", clock)
    second, told, _ = contender(server, "b", other_clock)
    await first.step()
    for _ in range(7):
        await second.step()
        assert not second.held
        other_clock.pass_(2)
    other_clock.pass_(DURATION - 14 + 0.1)
    await second.step()
    assert second.held
    assert told == [True]
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 1


async def test_a_lease_that_is_renewed_is_never_taken() -> None:
    server, clock = Server(), Clock()
    first, _, _ = contender(server, "a", clock)
    second, told, _ = contender(server, "b", clock)
    for _ in range(50):
        await first.step()
        await second.step()
        clock.pass_(5)
    assert told == []


async def test_spending_ends_ten_seconds_after_the_start_of_the_last_success() -> None:
    server, clock = Server(), Clock()
    lease, told, _ = contender(server, "a", clock)
    await lease.step()
    server.down.add("a")
    clock.pass_(5)
    await lease.step()
    assert lease.may_spend()
    clock.pass_(4.9)
    assert lease.may_spend()
    clock.pass_(0.2)
    assert not lease.may_spend()
    assert not lease.held
    await lease.step()
    assert told == [True, False]
    assert lease.error == "nobody there"


async def test_the_loss_is_told_in_time_although_nothing_answers() -> None:
    server, clock = Server(), Clock()
    lease, told, _ = contender(server, "a", clock)
    began = clock.now
    wait = await lease.step()
    server.down.add("a")
    while told == [True]:
        clock.pass_(wait)
        wait = await lease.step()
    assert SPENDING <= clock.now - began <= SPENDING + 0.2


@pytest.mark.parametrize(("steady", "wall"), [(0.0, 3600.0), (11.0, 0.0), (11.0, -3600.0)])
async def test_no_jump_of_a_clock_extends_the_right_to_spend(steady: float, wall: float) -> None:
    """Suspended: only the wall clock moves. Set back: only the monotonic one does."""
    server, clock = Server(), Clock()
    lease, _, _ = contender(server, "a", clock)
    await lease.step()
    clock.now += steady
    clock.walled += wall
    assert not lease.may_spend()


async def test_a_wall_clock_set_back_takes_nothing_from_a_fresh_lease() -> None:
    server, clock = Server(), Clock()
    lease, _, _ = contender(server, "a", clock)
    await lease.step()
    clock.walled -= 3600
    clock.now += 5
    assert lease.may_spend()


async def test_a_slow_write_counts_from_when_it_was_sent() -> None:
    server, clock = Server(), Clock()
    lease, told, client = contender(server, "a", clock)
    slow = client.request

    async def delayed(*args: Any, **more: Any) -> bytes:
        clock.pass_(6)
        return await slow(*args, **more)

    client.request = delayed  # type: ignore[method-assign]
    await lease.step()  # a read and a write: twelve seconds
    assert not lease.may_spend()
    assert told == []  # nobody is told of what has ended already


async def test_a_new_connection_gets_all_the_time_there_is_and_a_warm_one_answers_soon_or_never() -> None:
    server, clock = Server(), Clock()
    lease, _, client = contender(server, "a", clock)
    await lease.step()
    assert client.patience == [SPENDING, 2.5]  # the first one is made, then it is there
    clock.pass_(5)
    await lease.step()
    assert client.patience[2:] == [2.5]


async def test_a_silent_connection_costs_neither_the_lease_nor_a_pause() -> None:
    """The next try begins at once, on a new connection, and has all the time that is left."""
    server, clock = Server(), Clock()
    lease, told, client = contender(server, "a", clock)
    client.clock = clock
    await lease.step()
    clock.pass_(4)
    client.silent_until = clock() + 1
    wait = await lease.step()
    assert wait == pytest.approx(0.05)
    clock.pass_(wait)
    await lease.step()
    assert client.patience[-2:] == [2.5, pytest.approx(SPENDING - 4 - 2.5 - 0.05)]
    assert lease.held
    assert told == [True]


async def test_an_api_server_that_refuses_quickly_is_not_asked_without_a_pause() -> None:
    server, clock = Server(), Clock()
    lease, _, client = contender(server, "a", clock)
    server.down.add("a")
    waits = [await lease.step() for _ in range(20)]
    assert min(waits) >= 1.6
    assert client.patience == [SPENDING] * 20


@pytest.mark.parametrize("silence", [1.0, 4.0, 20.0, 300.0])
async def test_no_silence_makes_it_ask_in_a_tight_loop(silence: float) -> None:
    server, clock = Server(), Clock()
    lease, _, client = contender(server, "a", clock)
    client.clock = clock
    await lease.step()
    client.asked.clear()
    client.silent_until = clock() + silence
    end = clock() + silence + 30
    while clock() < end:
        clock.pass_(await lease.step())
    assert lease.held
    assert len(client.asked) < 12 + silence / 1.6


async def test_a_lost_answer_is_found_to_be_ours() -> None:
    server, clock = Server(), Clock()
    lease, _, _ = contender(server, "a", clock)
    server.lossy = True
    await lease.step()
    assert not lease.may_spend()
    server.lossy = False
    await lease.step()
    assert lease.may_spend()
    server.lossy = True
    clock.pass_(5)
    await lease.step()
    server.lossy = False
    clock.pass_(1)
    await lease.step()
    assert lease.may_spend()


async def test_a_usurped_lease_is_lost_at_the_next_write() -> None:
    server, clock = Server(), Clock()
    lease, told, _ = contender(server, "a", clock)
    await lease.step()
    assert server.lease is not None
    server.handle("PUT", server.lease | {"spec": server.lease["spec"] | {"holderIdentity": "b"}})
    clock.pass_(5)
    await lease.step()
    assert told == [True, False]
    assert lease.holder == "b"


@pytest.mark.parametrize("gone", [False, True])
async def test_who_slept_while_another_led_is_told_of_the_loss_before_it_leads_again(gone: bool) -> None:
    """Or it would go on with what it knew before."""
    server, clock = Server(), Clock()
    lease, told, _ = contender(server, "a", clock)
    await lease.step()
    other, _, _ = contender(server, "b", clock)
    await other.step()
    clock.pass_(DURATION + 1)
    await other.step()
    assert other.held
    await other._let_go()
    if gone:
        server.lease = None
    await lease.step()
    assert lease.held
    assert told == [True, False, True]


async def test_letting_go_is_not_waited_for_longer_than_it_is_of_use() -> None:
    """Where nothing answers any more, the end of the program must not wait for a connection."""
    server, clock = Server(), Clock()
    lease, _, client = contender(server, "a", clock)
    client.clock = clock
    await lease.step()
    clock.pass_(5)
    client.silent_until = clock() + 100
    await lease.step()
    began = clock()
    await lease._let_go()
    assert clock() - began <= 2.5


async def test_a_deleted_lease_is_created_again() -> None:
    server, clock = Server(), Clock()
    lease, told, _ = contender(server, "a", clock)
    await lease.step()
    server.lease = None
    clock.pass_(5)
    await lease.step()
    assert told == [True]
    assert server.lease is not None


async def test_nobody_leads_because_somebody_deleted_the_lease_while_the_leader_may_spend() -> None:
    """People delete it to have another replica lead; the leader hears of that with its next renewal only."""
    server, clock = Server(), Clock()
    first, told, _ = contender(server, "a", clock)
    second, _, _ = contender(server, "b", clock)
    await first.step()
    await second.step()
    clock.pass_(1)
    server.lease = None
    server.down.add("a")
    while clock() < 1_000 + DURATION:
        await second.step()
        assert not (first.may_spend() and second.may_spend())
        clock.pass_(1)
        await first.step()
    await second.step()
    assert second.may_spend()
    assert told == [True, False]


async def test_stopping_lets_go_so_that_a_successor_need_not_wait() -> None:
    server, clock = Server(), Clock()
    lease, told, _ = contender(server, "a", clock)
    task = asyncio.create_task(lease.run())
    for _ in range(4):
        await asyncio.sleep(0)
    assert lease.held
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert told == [True, False]
    assert not lease.may_spend()
    assert server.lease is not None
    assert server.lease["spec"]["holderIdentity"] == ""
    second, _, _ = contender(server, "b", clock)
    await second.step()
    assert second.held


async def test_stopping_without_the_lease_writes_nothing() -> None:
    server, clock = Server(), Clock()
    first, _, _ = contender(server, "a", clock)
    await first.step()
    second, _, client = contender(server, "b", clock)
    task = asyncio.create_task(second.run())
    for _ in range(4):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert set(client.asked) == {"GET"}


moves = st.lists(
    st.tuples(
        st.sampled_from(
            ["step", "step", "step", "pass", "suspend", "set wall", "down", "up", "lossy", "honest"]
        ),
        st.integers(0, 2),
        st.floats(0, 20),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(moves)
def test_two_never_may_spend_at_once(history: list[tuple[str, int, float]]) -> None:
    """Three contenders, each with clocks of its own that share the true time, whatever happens to them."""

    async def play() -> None:
        server = Server()
        clocks = [Clock(now=100.0 * k, wall=1e9 + 1000 * k) for k in range(3)]
        all_ = [contender(server, name, clock)[0] for name, clock in zip("abc", clocks, strict=True)]
        for what, who, seconds in history:
            if what == "step":
                await all_[who].step()
            elif what == "pass":
                for clock in clocks:
                    clock.pass_(seconds)
            elif what == "suspend":  # true time passes; one machine's monotonic clock does not see it
                for k, clock in enumerate(clocks):
                    clock.walled += seconds
                    clock.now += 0.0 if k == who else seconds
            elif what == "set wall":
                clocks[who].walled += seconds  # forward only: backward *and* suspended defeats any clock
            elif what in ("down", "up"):
                (server.down.add if what == "down" else server.down.discard)("abc"[who])
            else:
                server.lossy = what == "lossy"
            assert sum(lease.may_spend() for lease in all_) <= 1

    asyncio.run(play())
