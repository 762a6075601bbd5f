"""The status is written when it is new, and what people write beside it is heeded, with few requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from controller.app.notice import LOOK_EVERY, Notice
from controller.cluster.protocol import ClusterError, Stored

PAUSE = "gpu-autoscaler/pause"


class Board:
    """A ConfigMap that others can write on, and what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.text: str | None = None
        self.notes: dict[str, str] = {}
        self.version = 0
        self.down = False

    def annotate(self, wish: str) -> None:
        self.notes, self.version = {PAUSE: wish}, self.version + 1

    async def read_config_map(self, _name: str) -> Stored | None:
        self.asked.append("read")
        if not self.version:
            return None
        return Stored({"status.json": self.text or ""}, str(self.version), self.notes)

    async def write_config_map(self, _name: str, data: Mapping[str, str], version: str | None) -> str:
        self.asked.append("write")
        if self.down:
            raise ClusterError("unreachable", "no answer")
        if version != (str(self.version) if self.version else None):
            raise ClusterError("conflict", "somebody else wrote")
        self.text, self.version = data["status.json"], self.version + 1
        return str(self.version)


class Desk:
    def __init__(self, notes: Any = None) -> None:
        self.board, self.now = Board(), 0.0
        self.notice = Notice(self.board, lambda: self.now, notes)  # type: ignore[arg-type]

    def asked(self) -> list[str]:
        told, self.board.asked = self.board.asked, []
        return told


async def test_the_first_status_makes_the_config_map_and_later_ones_cost_one_request() -> None:
    desk = Desk()
    assert await desk.notice.wishes() == [""]
    assert await desk.notice.show("one")
    assert await desk.notice.show("two")
    assert desk.board.text == "two"
    assert desk.asked() == ["read", "write", "write"]


async def test_what_stands_there_already_is_not_written_again() -> None:
    desk = Desk()
    desk.board.text, desk.board.version = "same", 7
    await desk.notice.wishes()
    assert await desk.notice.show("same")
    assert desk.asked() == ["read"]


async def test_an_annotation_is_met_by_the_next_write() -> None:
    desk = Desk()
    await desk.notice.wishes()
    await desk.notice.show("one")
    desk.board.annotate("all")
    assert not await desk.notice.show("two")
    assert desk.notice.due
    assert await desk.notice.wishes() == ["all"]
    assert await desk.notice.show("two")
    assert desk.board.text == "two"


async def test_while_nothing_is_written_it_is_looked_at_now_and_then() -> None:
    desk = Desk()
    assert desk.notice.due
    await desk.notice.wishes()
    assert not desk.notice.due
    desk.now += LOOK_EVERY
    assert desk.notice.due


async def test_a_config_map_that_was_deleted_is_made_again() -> None:
    desk = Desk()
    await desk.notice.wishes()
    await desk.notice.show("one")
    desk.board.text, desk.board.version = None, 0
    desk.now += LOOK_EVERY
    await desk.notice.wishes()
    assert await desk.notice.show("one")
    assert desk.board.text == "one"


async def test_a_write_without_an_answer_is_followed_by_a_look() -> None:
    desk = Desk()
    await desk.notice.wishes()
    desk.board.down = True
    with pytest.raises(ClusterError):
        await desk.notice.show("one")
    assert desk.notice.due
    desk.board.down = False
    await desk.notice.wishes()
    assert await desk.notice.show("one")


async def test_the_deployment_s_annotation_counts_too() -> None:
    async def notes() -> dict[str, str]:
        return {PAUSE: "scale-up"}

    desk = Desk(notes)
    assert await desk.notice.wishes() == ["", "scale-up"]
