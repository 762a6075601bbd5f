"""`bench`: measurements on this machine, for people or as one JSON object."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Iterable
from typing import Any

import typer

from controller.app.exits import CONFIGURATION, FAILED, Ends
from controller.report.logs import set_up


def _show(title: str, found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found))
    else:
        typer.echo(f"{title}: " + ", ".join(f"{key} {value}" for key, value in found.items()))


def latency(*, as_json: bool, pods: int) -> None:
    from controller.sandbox.bench.latency import measure

    set_up("error", "text")
    _show("latency", asyncio.run(measure(pods)), as_json)


def decode(*, as_json: bool) -> None:
    from controller.sandbox.bench.decode import measure
    from controller.sandbox.bench.machine import measured_on

    set_up("error", "text")
    _show("decode", measure() | measured_on(), as_json)


def memory(*, as_json: bool, nodes: int, pods: int) -> None:
    from controller.sandbox.bench.memory import measure

    set_up("error", "text")
    _show("memory", asyncio.run(measure(nodes, pods)), as_json)


def cloud(*, as_json: bool, seconds: float, clients: int, instances: int) -> None:
    from controller.sandbox.bench.cloud import measure

    set_up("error", "text")
    _show("cloud", asyncio.run(measure(seconds, clients, instances)), as_json)


def adapter(*, as_json: bool, orders: int) -> None:
    from controller.sandbox.bench.adapter import measure

    set_up("error", "text")
    _show("adapter", asyncio.run(measure(orders)), as_json)


def served(*, as_json: bool, machines: int, groups: int, calls: int) -> None:
    try:
        module = importlib.import_module("compat_grpc.bench")
    except ImportError as error:
        raise Ends(
            CONFIGURATION, f"bench grpc: {error.name} is not installed; it comes with the extra grpc"
        ) from error
    from controller.sandbox.bench.machine import measured_on

    set_up("error", "text")
    found = module.measure(machines, groups, calls)
    shown = {name: value for name, value in found.items() if as_json or name != "goals"}
    _show("grpc", shown | measured_on(), as_json)
    if not as_json:
        typer.echo("\n".join(module.judged(found)))


def planner(*, as_json: bool, workload: str, pods: int, offers: int | None, strategy: str) -> None:
    from controller.sandbox.bench.planner import measure
    from controller.sandbox.bench.planner.solver import HINT, installed

    set_up("error", "text")
    _one_of("--workload", workload, measure.STRATEGIES)
    if strategy:
        _one_of("--strategy", strategy, measure.CHOICES)
    if not installed():
        typer.echo(f"price_floor is null: {HINT}", err=True)
    found = measure.measure(measure.workload(workload, pods, offers, strategy))
    _show(f"planner, {workload}", found.numbers(), as_json)


def optimum(*, as_json: bool, instances: int, seconds: float, processes: int) -> None:
    from controller.sandbox.bench.planner.solver import HINT, installed

    set_up("error", "text")
    if not installed():
        raise Ends(FAILED, HINT)
    from controller.sandbox.bench.planner.optimum import measure

    found = measure(range(1, instances + 1), seconds, processes)
    _show("optimum", found, as_json)


def _one_of(option: str, given: str, allowed: Iterable[str]) -> None:
    if given not in allowed:
        raise Ends(CONFIGURATION, f"{option} {given!r}: expected one of {', '.join(allowed)}")
