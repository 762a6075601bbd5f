"""The demo: the real controller on both sandboxes over HTTP, told live; true only if it really went so.

Pods that need 1, 1 and 2 GPUs, one for a machine of one's own and one that can never fit; the decision and its
reasons; machines ordered, booted, joined, and the own one switched on; GPUs late; pods running, done; cooldown; the
largest idle machine goes first; at the end the bill, and what is left in the account.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from controller.app.program import Program
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Plan
from controller.domain.switching import Power
from controller.sandbox.demo import own_machine
from controller.sandbox.demo.own_machine import OwnMachine
from controller.sandbox.demo.stage import Stage

LONGEST = 120.0  # on a machine that is busy with other things; usually it is over in half a minute
POOL = {
    "name": "a100",
    "instance_types": ["1A100.22V", "2A100.44V", "4A100.88V"],
    "locations": ["FIN-01"],
    "max": 4,
}
# Seconds of the machines' own time, divided by the speed; narrow, so that every run tells the same story.
CLOUD = {
    "speed": 40,
    "ordered_s": [20, 30],
    "provisioning_s": [80, 120],
    "delete_s": [30, 60],
    "volume_gone_s": [30, 60],
}
CLUSTER = {"speed": 40, "boot": [60, 90], "ready": [10, 20], "gpu": [30, 60]}
# Name, GPUs, seconds, and what else it says.
OWN_POD = "train-at-home"
PODS: dict[str, tuple[int, float, dict[str, Any]]] = {
    "train-small-1": (1, 320.0, {}),
    "train-small-2": (1, 320.0, {}),
    "train-large": (2, 80.0, {}),
    OWN_POD: (
        2,
        200.0,
        {
            "tolerations": [{"key": own_machine.TAINT["key"], "operator": "Exists"}],
            "nodeSelector": {"kubernetes.io/hostname": own_machine.NAME},
        },
    ),
    "train-huge": (16, 80.0, {}),
}
RAN = len(PODS) - 1  # the huge one never does

_WORDS = {
    Phase.INTENDED: "is written into the ledger, then ordered",
    Phase.ORDERED: "is ordered; the cloud builds it",
    Phase.BOOTING: "runs and boots",
    Phase.JOINED: "joined the cluster",
    Phase.STARTED: "is Ready, its GPUs are not there yet",
    Phase.READY: "offers its GPUs",
    Phase.DRAINING: "is drained",
    Phase.DELETING: "is deleted, with its disk",
}
_POWER = {
    Power.RISING: "is called: switch on",
    Power.ON: "is on, its GPUs are there; it costs nothing more",
    Power.DRAINING: "is drained",
    Power.FALLING: "is called: switch off; its Node stays, tainted, for the next time",
}


class Teller:
    """Prints each thing once, as a line for people or as JSON for scripts."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._start = time.monotonic()
        self._said: set[str] = set()

    def say(self, event: str, text: str, *, once: str = "", **facts: Any) -> None:
        if once and once in self._said:
            return
        self._said.add(once)
        moment = time.monotonic() - self._start
        if self._json:
            print(json.dumps({"t": round(moment, 2), "event": event, "message": text, **facts}), flush=True)
        else:
            colour = {
                "decision": "\033[1;36m",
                "never": "\033[1;33m",
                "gone": "\033[1;32m",
                "title": "\033[1m",
            }
            on, off = (colour.get(event, ""), "\033[0m") if sys.stdout.isatty() else ("", "")
            print(f"{moment:5.1f} s  {on}{text}{off}", flush=True)

    def last(self, summary: dict[str, Any]) -> None:
        if self._json:
            print(json.dumps(summary), flush=True)
            return
        print()
        print(f"  pods that ran            {summary['pods_run']}")
        print(f"  machines launched        {summary['launches']}")
        print(f"  first to go              {summary['first_removed']} (the largest)")
        print(f"  switched on and off      {own_machine.NAME} ({', '.join(summary['switched'])})")
        print(f"  the bill                 {summary['cost']:.4f} {summary['currency']}")
        print(
            f"  left in the account      {summary['machines_left']} machines, {summary['disks_left']} disks, "
            f"{summary['scripts_left']} scripts",
            flush=True,
        )


async def tell(*, as_json: bool, seed: int = 0) -> bool:
    """Play the story; whether it went as it should."""
    teller = Teller(as_json)
    async with Stage(seed=seed, cloud=CLOUD, cluster=CLUSTER) as stage, OwnMachine(stage) as own:
        teller.say(
            "title",
            "A cluster without GPUs, an empty cloud account, a machine that is switched off, and the controller between them.",
        )
        # Two at once, so that none waits for the own machine, which is believed to be off only after half a minute.
        leaving = {"disruption": {"budget": "2"}}
        program = await stage.program(
            {"cluster_id": "demo", "pools": [POOL], "machines": [own.settings()], **leaving}
        )
        running = asyncio.create_task(program.run(None))
        try:
            removed, done = await _play(stage, program, teller, running)
            switched = own.calls == ["start", "stop"]
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        summary = await _sum_up(stage, removed, done)
        summary["switched"] = own.calls
        summary["ok"] = summary["ok"] and switched
    teller.last(summary)
    return bool(summary["ok"])


async def _play(
    stage: Stage, program: Program, teller: Teller, running: asyncio.Task[None]
) -> tuple[list[str], set[str]]:
    """Watch until everything is over: the machines in the order in which they went, the pods that finished."""
    program.loop.on_plan.append(lambda plan: _decisions(plan, teller))
    removed: list[str] = []
    phases: dict[str, Machine] = {}
    done: set[str] = set()
    end = time.monotonic() + LONGEST
    asked = False
    while time.monotonic() < end and not running.done():
        if not asked and program.lease.held and program.fleet.rebuilt:
            asked = True
            for name, (gpus, seconds, more) in PODS.items():
                await stage.pod(name, gpus, run_for=seconds, **more)
                teller.say("pod", f"pod {name} asks for {gpus} GPU{'s' * (gpus != 1)}", pod=name, gpus=gpus)
        now = {machine.name: machine for machine in program.fleet.machines()}
        for name, machine in now.items():
            if name not in phases or phases[name].phase is not machine.phase:
                _phase(machine, teller)
        for name in phases.keys() - now.keys():
            removed.append(phases[name].instance_type)
            teller.say("gone", f"{name} ({phases[name].instance_type}) is proven gone", machine=name)
        phases = now
        for name, pod in (await stage.pods()).items():
            phase = pod["status"]["phase"]
            done |= {name} if phase == "Succeeded" else set()
            if phase != "Pending":
                where = f" on {pod['spec'].get('nodeName', '')}" if phase == "Running" else ""
                teller.say(
                    "pod", f"pod {name} is {phase}{where}", once=f"{name} {phase}", pod=name, phase=phase
                )
        for name, why in program.loop.plan.machines.items():
            if why.code.value in ("cooldown", "idle", "budget"):
                teller.say(
                    "idle", f"{name}: {why.message}", once=f"{name} {why.code}", machine=name, code=why.code
                )
        off = _switched(program, teller)
        if len(done) == RAN and removed and not now and off:
            break
        await asyncio.sleep(0.1)
    return removed, done


def _switched(program: Program, teller: Teller) -> bool:
    """Tell what happens to the own machine; whether it was switched off again."""
    record = program.ledger.switched.get(own_machine.NAME)
    if record is None:
        return False
    if record.power in _POWER:
        power = record.power.value
        teller.say(
            "machine",
            f"{record.name} ({own_machine.GPUS} GPUs) {_POWER[record.power]}",
            once=f"{record.name} {power}",
            machine=record.name,
            power=power,
        )
    return record.power is Power.FALLING and bool(record.acked_at)


def _decisions(plan: Plan, teller: Teller) -> None:
    for key, why in plan.pods.items():
        if why.code.value == "launching":
            teller.say(
                "decision", f"{key}: {why.message}", once=f"launch {key}", pod=key, code=why.code.value
            )
        elif why.code.value == "too_large":
            teller.say("never", f"{key}: {why.message}", once=f"never {key}", pod=key, code=why.code.value)


def _phase(machine: Machine, teller: Teller) -> None:
    words = _WORDS.get(machine.phase)
    if words:
        teller.say(
            "machine",
            f"{machine.name} ({machine.instance_type}) {words}",
            once=f"{machine.name} {machine.phase}",
            machine=machine.name,
            phase=machine.phase.value,
        )


async def _sum_up(stage: Stage, removed: list[str], done: set[str]) -> dict[str, Any]:
    pods, state = await stage.pods(), await stage.bill()
    largest = removed[0] if removed else ""
    summary = {
        "pods_run": len(done),
        "launches": state["creates"],
        "first_removed": largest,
        "machines_left": len(state["instances"]),
        "disks_left": len(state["volumes"]) + len(state["trash"]),
        "scripts_left": len(state["scripts"]),
        "cost": round(float(state["meter"]["total"]), 4),
        "currency": state["meter"]["currency"],
    }
    left = summary["machines_left"] + summary["disks_left"] + summary["scripts_left"]
    waiting = pods.get("train-huge", {}).get("status", {}).get("phase") == "Pending"
    summary["ok"] = (
        len(done) == RAN and summary["launches"] == 3 and left == 0 and largest == "2A100.44V" and waiting
    )
    return summary
