"""Changed settings that the program as it was started could not live up to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller.app import reload as reloading
from controller.app.exits import Ends
from controller.app.reload import APPLIED, REFUSED, SAME, Reload, lost, mark
from controller.cli import running
from controller.cli.given import Given
from controller.cloud.none import NoCloud
from controller.cluster.protocol import ClusterError
from controller.config.load import Loaded, load, load_dict
from tests.config.foreign import HELM, MACHINES
from tests.fleet.fakes import A1
from tests.loop.predecessors import CA_VERDA


async def test_pools_that_come_where_no_account_was_are_refused_and_told() -> None:
    """Nothing would ever be bought for them."""
    loaded = load_dict(
        {"pools": [{"name": "a100", "instance_types": [A1.name], "max": 4}], "namespace": "gpu"}
    )
    program: Any = SimpleNamespace(
        cloud=NoCloud(lambda: 0.0), loaded=loaded, policy=SimpleNamespace(cluster_id="home"),
        metrics=SimpleNamespace(settings_valid=SimpleNamespace(set=lambda _: None)),
    )  # fmt: skip
    reload = Reload(program, lambda: loaded, sleep=asyncio.sleep)
    with pytest.raises(Ends, match="without an account"):
        await reload._take(loaded)


def started(told: dict[str, Any], driver: Any) -> Any:
    return SimpleNamespace(
        cloud=None, loaded=load_dict(told), policy=SimpleNamespace(cluster_id="home"), driver=driver,
        metrics=SimpleNamespace(settings_valid=SimpleNamespace(set=lambda _: None)),
    )  # fmt: skip


POOL: dict[str, Any] = {
    "name": "a100",
    "instance_types": [A1.name],
    "locations": ["FIN-01", "FIN-03"],
    "max": 4,
}


async def test_what_the_driver_cannot_drive_is_refused_while_it_runs_too() -> None:
    """A minimum that cluster-autoscaler is never told of would be filled by nobody."""
    wrong = ["pools: min = 1 of pool a100: expected something else"]
    driver = SimpleNamespace(objections=lambda policy: wrong if policy.pools[0].min else [])
    told: dict[str, Any] = {"pools": [POOL], "namespace": "gpu"}
    reload = Reload(started(told, driver), lambda: load_dict(told), sleep=asyncio.sleep)
    with pytest.raises(Ends, match="min = 1 of pool a100"):
        await reload._take(load_dict(told | {"pools": [POOL | {"min": 1}]}))


async def test_other_settings_of_the_port_are_not_said_to_be_in_force() -> None:
    """Whoever takes a name from the list must not believe that it is kept out."""
    told: dict[str, Any] = {
        "pools": [POOL], "namespace": "gpu",
        "externalgrpc": {"tls": {"cert": "/c", "key": "/k", "client_ca": "/a"}, "allowed_names": ["one", "two"]},
    }  # fmt: skip
    less = told | {"externalgrpc": told["externalgrpc"] | {"allowed_names": ["one"]}}
    driver = SimpleNamespace(objections=lambda _policy: [])
    reload = Reload(started(told, driver), lambda: load_dict(told), sleep=asyncio.sleep)
    with pytest.raises(Ends, match="externalgrpc: expected what it was at the start"):
        await reload._take(load_dict(less))


def first_and_again(file: Path, first: str, again: str) -> tuple[Reload, Loaded]:
    """A program that was started with one text in its file, beside machines of variables, and what is read then."""
    file.write_text(first)
    program = started({"namespace": "gpu"}, None)
    program.loaded = load(str(file), MACHINES, service_account="/nowhere")
    file.write_text(again)
    loaded = load(str(file), MACHINES, service_account="/nowhere")
    return Reload(program, lambda: loaded, sleep=asyncio.sleep), loaded


RACK = HELM.replace("gpu-worker", "rack")
NATIVE = (
    "pools: [{name: a, instance_types: [1V100.6V], max: 1, join: m}]\njoin: {m: {startup_script_id: s}}\n"
)


@pytest.mark.parametrize("first", [NATIVE, CA_VERDA, RACK])
@pytest.mark.parametrize("again", ["", "\n", "---\n", "# pools:\n", "{}", "null\n"])
async def test_an_emptied_file_is_refused_though_machines_stand_in_variables(
    tmp_path: Path, first: str, again: str
) -> None:
    """Its pools would be gone, and be drained."""
    reload, loaded = first_and_again(tmp_path / "config.yaml", first, again)
    assert loaded.settings.machines
    with pytest.raises(Ends, match=r"config\.yaml: expected settings, because it had some before"):
        await reload._take(loaded)


@pytest.mark.parametrize(("first", "again"), [(CA_VERDA, NATIVE), (NATIVE, CA_VERDA), (CA_VERDA, RACK)])
async def test_a_file_of_another_dialect_is_refused_while_the_program_runs(
    tmp_path: Path, first: str, again: str
) -> None:
    reload, loaded = first_and_again(tmp_path / "config.yaml", first, again)
    with pytest.raises(Ends, match=f"one of {loaded.dialect} now: expected one of "):
        await reload._take(loaded)


def test_a_file_that_never_had_settings_may_stay_so_and_one_may_say_that_there_are_no_pools(
    tmp_path: Path,
) -> None:
    file = tmp_path / "config.yaml"
    for first, again in (
        ("", "# later\n"),
        ("", NATIVE),
        (NATIVE, "pools: []\n"),
        (CA_VERDA, "node_groups: {}\n"),
    ):
        reload, loaded = first_and_again(file, first, again)
        assert lost(reload._program.loaded, loaded) == []


class Watched:
    """A reload with everything around it in memory: what stands in the files, what was taken and what was told."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "config.yaml"
        self.other = folder / "script.sh"
        self.file.write_text("1")
        self.told: list[tuple[str, str]] = []
        self.problems: list[str | None] = []
        self.counted: list[str] = []
        self.valid: list[int] = []
        self.taken: list[str] = []
        self.reads = 0
        self.trouble: Exception | None = None
        program: Any = SimpleNamespace(
            loaded=self._loaded(), policy=SimpleNamespace(namespace="gpu"),
            metrics=SimpleNamespace(
                settings_valid=SimpleNamespace(set=self.valid.append),
                settings_changes=SimpleNamespace(
                    labels=lambda result: SimpleNamespace(inc=lambda: self.counted.append(result))
                ),
            ),
            loop=SimpleNamespace(problem=lambda _key, words: self.problems.append(words)),
            reporter=SimpleNamespace(about=lambda _what, _kind, reason, words: self.told.append((reason, words))),
        )  # fmt: skip
        self.reload = Reload(program, self._again, sleep=asyncio.sleep)
        self.reload._take = self._take  # type: ignore[method-assign]

    def _loaded(self) -> Any:
        return SimpleNamespace(draft=SimpleNamespace(files=[str(self.file)]), text=self.file.read_text())

    def _again(self) -> Any:
        self.reads += 1
        text = self.file.read_text()
        if "script" in text and not self.other.exists():
            raise Ends(2, f"{self.other}: expected a file that can be read")
        if "wrong" in text:
            raise Ends(2, f"{self.file}:1: wrong")
        return self._loaded()

    async def _take(self, loaded: Any) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.taken.append(loaded.text)
        self.reload._tell("Normal", "SettingsChanged", "in force", APPLIED)


async def test_what_a_refused_configuration_lacks_is_noticed_when_it_comes(tmp_path: Path) -> None:
    """The file that it names is no file of the settings in force, so nothing else would tell that it is there now."""
    world = Watched(tmp_path)
    world.file.write_text("script")
    assert await world.reload.look() == REFUSED
    assert [await world.reload.look() for _ in range(5)] == [SAME] * 5
    assert (len(world.told), world.counted, world.valid[-1]) == (1, [REFUSED], 0)  # told once
    world.other.write_text("#!/bin/sh\n")
    assert await world.reload.look() == APPLIED
    assert (world.taken, world.counted, world.valid[-1]) == (["script"], [REFUSED, APPLIED], 1)
    assert world.problems[-1] is None
    before = world.reads
    assert [await world.reload.look() for _ in range(3)] == [SAME] * 3
    assert world.reads == before  # in force, and nothing has changed: nothing is read


async def test_a_change_of_a_refused_configuration_is_told_even_where_the_same_is_wrong(
    tmp_path: Path,
) -> None:
    world = Watched(tmp_path)
    for text in ("wrong 1", "wrong 2"):
        world.file.write_text(text)
        assert await world.reload.look() == REFUSED
    world.file.write_text("1")  # as it was
    assert await world.reload.look() == APPLIED
    assert [reason for reason, _ in world.told] == ["SettingsRefused", "SettingsRefused", "SettingsChanged"]


@pytest.mark.parametrize("trouble", [ClusterError("unreachable", "away"), ZeroDivisionError("a bug")])
async def test_trouble_of_the_outside_or_of_our_own_is_told_once_and_tried_again(
    tmp_path: Path, trouble: Exception
) -> None:
    world = Watched(tmp_path)
    world.trouble = trouble
    world.file.write_text("2")
    assert [await world.reload.look() for _ in range(4)] == [REFUSED, SAME, SAME, SAME]
    assert len(world.told) == 1
    world.trouble = None
    assert await world.reload.look() == APPLIED
    assert world.taken == ["2"]


async def test_what_changed_while_the_program_started_is_a_change(tmp_path: Path) -> None:
    """Between reading the settings and the first look a start may have waited for its cluster."""
    world = Watched(tmp_path)
    seen = mark([str(world.file)])
    world.file.write_text("2")
    reload = Reload(world.reload._program, world._again, sleep=asyncio.sleep, seen=seen)
    reload._take = world._take  # type: ignore[method-assign]
    world.reload = reload
    assert await reload.look() == APPLIED
    assert world.taken == ["2"]
    assert await reload.look() == SAME


def test_the_command_remembers_what_it_read_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.yaml"
    machine = "{name: w1, gpu_count: 1, scale_up_endpoint: http://h/1, scale_down_endpoint: http://h/2}"
    file.write_text(f"machines: [{machine}]\n")
    before = mark([str(file)])
    found: list[Any] = []

    async def begin(*words: Any) -> None:
        file.write_text("other")
        found.extend(words)

    monkeypatch.setattr(running, "_controller", begin)
    monkeypatch.setattr(running, "set_up", lambda *_: None)
    running.run_controller(
        Given(str(file)), listen=":0", dry_run=True, once=False, log_level="error", log_format="text"
    )
    assert before in found


async def test_a_look_that_fails_unexpectedly_is_not_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process at the end of its threads cannot look for a moment."""
    world, looks = Watched(tmp_path), 0
    real = reloading.mark

    def fails_first(files: Any) -> Any:
        nonlocal looks
        if str(world.file) not in files:
            return real(files)  # of another test, whose thread is still at work
        looks += 1
        if looks == 1:
            raise RuntimeError("can't start new thread")
        return real(files)

    async def sleep(_seconds: float) -> None:
        if looks > 3:
            raise asyncio.CancelledError

    timing = SimpleNamespace(reload=SimpleNamespace(total_seconds=lambda: 1.0))
    world.reload._program.loaded.settings = SimpleNamespace(timing=timing)
    world.reload._sleep = sleep
    world.file.write_text("2")
    monkeypatch.setattr(reloading, "mark", fails_first)
    with pytest.raises(asyncio.CancelledError):
        await world.reload.run()
    assert world.taken == ["2"]
