"""Tags written on a machine that is there already: the mark of one that is taken over."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from controller.domain.outcome import Happened, Refused, Unknown
from tests.cloud.test_verda_on_sandbox import ORDER, Scene


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setenv("NO_PROXY", "*")
    opened = await Scene().open()
    yield opened
    await opened.close()


async def test_a_tag_is_written_once_and_again_without_harm(scene: Scene) -> None:
    machine = await scene.order_running(replace(ORDER, tags=()))
    for _ in range(2):
        assert await scene.cloud.tag(machine.id, "gpuas-cluster", "home") == Happened(machine.id)
    seen = await scene.cloud.instance(machine.id)
    assert seen is not None
    assert seen.tags == (("gpuas-cluster", "home"),)


async def test_an_account_that_takes_no_tags_says_so(scene: Scene) -> None:
    machine = await scene.order_running(replace(ORDER, tags=()))
    scene.set(tags=False)
    outcome = await scene.cloud.tag(machine.id, "gpuas-cluster", "home")
    assert isinstance(outcome, Refused)
    assert outcome.message.startswith("tag: answered 40")


async def test_an_answer_that_is_lost_is_no_tag_for_certain(scene: Scene) -> None:
    machine = await scene.order_running(replace(ORDER, tags=()))
    scene.faults.replace([{"method": "POST", "path": "/v1/instances/*", "fault": "lose_after"}])
    assert isinstance(await scene.cloud.tag(machine.id, "gpuas-cluster", "home"), Unknown)
