"""Deliberate bugs, one at a time: each must be caught by a simulated story, or by a test that it names.

`python -m tests.simulator.mutants [NAME…]` tries them, each in a process of its own whose import of one module
finds other text. A bug that nothing catches is an invariant that is missing.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CPU_S = 600  # for one bug; a bug that is never done is none that was noticed
PATIENCE = 6.0 * CPU_S  # on a busy machine
CAUGHT, MISSED = 3, 4  # exit codes; any other, as of a bug whose text is not there any more, is no verdict
TESTS_FAILED = 1  # what pytest says, unlike that it found no tests


class Mutant(NamedTuple):
    name: str
    module: str
    right: str
    wrong: str
    stories: tuple[str, ...] = ()  # where it should show; none: in any
    tests: str = ""  # what else catches it: arguments of pytest


LOST, LIES = "the answer to the order is lost", "lists lie"
ORDER, REMOVAL = "it dies around the order", "it dies around the removal"
PLAIN, DELETE = "nothing goes wrong", "the delete gets lost"
PHASE = "it dies when its ledger says"
NEVER, LEASE = "the machine never becomes usable", "the lease is lost to another"
OUTAGE = "no machine becomes usable for longer than two are bought in vain"
HAND, NODES = "somebody deletes it by hand", "a node flaps, is forgotten, comes back"
LEAVE, LEAVE_LEASE = "pods without GPUs leave first", "the lease is lost while pods are asked to leave"

MUTANTS = [
    Mutant("the intent is not written before the order", "controller.fleet.buying",
        "await self._ledger.flush()  # the intent is stored before anything is bought", "pass", (PLAIN,)),
    Mutant("one list without a machine proves that it is not there", "controller.fleet.life",
        "machine.absent_lists >= limits.unknown_lists\n        and seen.listed_at - machine.absent_since >= limits.unknown_over",
        "machine.absent_lists >= 1", (LIES, LOST)),
    Mutant("an order without an answer is sent again", "controller.fleet.launch",
        "outcome = await self._cloud.create(order)\n",
        "outcome = await self._cloud.create(order)\n        if isinstance(outcome, Unknown):\n            outcome = await self._cloud.create(order)\n", (LOST,)),
    Mutant("an order without an answer counts as refused", "controller.fleet.launch",
        "outcome = await self._cloud.create(order)\n",
        "outcome = await self._cloud.create(order)\n        if isinstance(outcome, Unknown):\n            outcome = Refused(Reason.UNAVAILABLE, outcome.message)\n", (LOST,)),
    Mutant("a delete does not name the disks", "controller.cloud.verda.provider",
        '"volume_ids": list(disks)', '"volume_ids": []', (PLAIN,), "tests/cloud/test_verda_provider.py"),
    Mutant("disks go to the trash", "controller.cloud.verda.provider",
        '"delete_permanently": True', '"delete_permanently": False', (PLAIN,), "tests/cloud/test_verda_provider.py"),
    Mutant("disks that are left are forgotten", "controller.fleet.closing",
        "if missing and (missing >= _LISTS or machine.delete_at or not machine.disks):\n                break", "break", (HAND,), "tests/fleet/test_fleet_removal.py"),
    Mutant("a machine is idle whoever uses it", "controller.planning.scale_down",
        "if (busy := in_use(snapshot, pods)) is not None:", "if False and (busy := in_use(snapshot, pods)) is not None:", (PLAIN,),
        "tests/planning/test_planning_removal.py"),
    Mutant("nobody looks at the pods before the delete, nor before the drain", "controller.fleet.removal",
        "        if why is not None:\n            raise CalledOff(why)", "        return", (PLAIN,), "tests/fleet/test_fleet_removal.py"),
    Mutant("the consistent list before the delete is left out", "controller.fleet.leaving",
        "await self._removal.last_look(policy, machine)\n", "pass\n", (PLAIN,), "tests/fleet/test_fleet_removal.py"),
    Mutant("new pods are not kept away from a machine that leaves", "controller.fleet.removal",
        "await self._writer.taint(machine.name, add=self._taints)", "pass", (PLAIN,), "tests/fleet/test_fleet_removal.py"),
    Mutant("the lease is not looked at before an order", "controller.fleet.launch",
        "if not self._may_spend():", "if False:", (LEASE,), "tests/fleet/test_fleet_launch.py"),
    Mutant("a lease is believed to be held for ever", "controller.cluster.lease",
        "return steady < self._spend_within and wall < self._spend_within", "return True", (LEAVE_LEASE, LEASE), "tests/cluster/test_cluster_room_lease.py"),
    Mutant("somebody else's lease is taken at once", "controller.cluster.lease",
        "return self._clock() < self._unchanged_since + lasts", "return False", (LEASE,), "tests/cluster/test_cluster_room_lease.py"),
    Mutant("the ledger is written over whatever stands there", "controller.cluster.configmaps",
        '| {"metadata": kept["metadata"] | body["metadata"] | {"resourceVersion": version}}', '| {"metadata": kept["metadata"] | body["metadata"]}', ("writes conflict", LEASE), "tests/cluster/test_cluster_room_writer.py tests/cluster/test_cluster_room_sandbox.py"),
    Mutant("machines on their way are no capacity", "controller.planning.sites",
        "if machine.phase.on_the_way:\n            sites.coming.append(_promised(snapshot, machine, here, pods, shown.get(_look(machine))))",
        "if machine.phase.on_the_way:\n            pass", (PLAIN,)),
    Mutant("the maximum of a pool is forgotten", "controller.planning.limits",
        "if self.of_pool[name] >= pool.max:", "if False:", ("the pool is full",)),
    Mutant("a list that says it is cut counts as whole", "controller.cloud.verda.reads",
        "return total is not None and total > listed", "return False", (LIES,), "tests/cloud/test_verda_provider.py"),
    Mutant("one mark makes a machine ours", "controller.domain.names",
        "if len(claims) < 2 or len(set(claims)) != 1:", "if not claims or len(set(claims)) != 1:", (PLAIN,)),
    Mutant("a script is ours by its name alone", "controller.domain.names",
        "return intent if len(lines) > 1 and lines[1].strip() == script_mark(cluster_id, intent) else \"\"", "return intent", (PLAIN,)),
    Mutant("a second machine of an order is left alone", "controller.fleet.sightings",
        "if instance.id != machine.instance_id and instance.state not in _OVER", "if False", ("an order is carried out twice",)),
    Mutant("a second machine goes although it is the only one by now", "controller.fleet.leaving",
        "if await self._removal.look_up(machine.instance_id) is None:", "if False:", ("an order is carried out twice",),
        "tests/fleet/test_fleet_launch.py"),
    Mutant("one look at the lease is enough for all pods that are asked to leave", "controller.fleet.removal",
        "                check()\n                outcome = await self._writer.evict(pod)", "                outcome = await self._writer.evict(pod)",
        (LEASE,), "tests/fleet/test_fleet_removal.py"),
    Mutant("a delete is believed without proof", "controller.fleet.leaving",
        "            if instance is None:\n                self._lead()",
        "            if instance is None or machine.delete_at:\n                self._lead()", (DELETE,)),
    Mutant("one answer that does not know a machine frees its place", "controller.fleet.leaving",
        "            if not vanished:\n", "            if False:\n", (PLAIN,),
        "tests/fleet/test_fleet_gone_for_certain.py"),
    Mutant("a machine that is followed again is gone all the same", "controller.fleet.leaving",
        "            if (machine := self._in(intent, Phase.DELETING)) is None or machine.gone_at:\n                continue\n", "", (PLAIN,),
        "tests/fleet/test_fleet_gone_for_certain.py"),
    Mutant("an accepted delete is never sent again", "controller.fleet.leaving",
        "_REPEAT = 60.0", "_REPEAT = 1e9", (DELETE,)),
    Mutant("any 404 says that a machine is gone", "controller.cloud.verda.reads",
        "if isinstance(outcome, Refused) and outcome.reason is Reason.ALREADY_GONE:\n                return None", "if True:\n                return None", (LIES, DELETE),
        "tests/cloud/test_verda_provider.py"),
    Mutant("an interrupted delete is not gone on with", "controller.fleet.flights",
        "elif machine.phase is Phase.DELETING:", "elif False:", (PHASE, REMOVAL, NEVER, HAND)),
    Mutant("an interrupted drain is not gone on with", "controller.fleet.flights",
        "if machine.phase is Phase.DRAINING:", "if False:", (PHASE, REMOVAL, NEVER)),
    Mutant("Node objects are left behind", "controller.fleet.closing",
        "await self._removal.delete_node(machine, lambda: self._still_gone(intent))", "pass", (PLAIN,), "tests/fleet/test_fleet_removal.py"),
    Mutant("the Node of a machine that vanished waits for its disks", "controller.fleet.flights",
        "if self._leaving.has_a_ghost(machine):", "if False:", (), "tests/simulator/test_simulator_ghosts.py"),
    Mutant("a Node that is Ready again is taken for a ghost", "controller.fleet.removal",
        "if node is None or node.ready or machine", "if node is None or machine", (HAND,),
        "tests/fleet/test_fleet_removal.py"),
    Mutant("critical pods are asked to leave with the others", "controller.fleet.eviction",
        "        return others\n", "        pass\n", (PLAIN,), "tests/fleet/test_fleet_critical.py"),
    Mutant("whoever leads again judges by the time in which nobody led", "controller.fleet.blindness",
        "self._until = max(self._until, until)", "pass", (NEVER,), "tests/fleet/test_fleet_of_no_use_for_a_while.py"),
    Mutant("what a drain wrote to the Node of a machine that comes back stays there", "controller.fleet.life",
        "drain_at=machine.drain_at or now,\n        delete_at", "drain_at=0.0,\n        delete_at", (LIES,),
        "tests/fleet/test_fleet_removal.py"),
    Mutant("scripts are left behind", "controller.fleet.removal",
        "outcome = await self._cloud.delete_script(script_id)\n", "return\n", (PLAIN,), "tests/fleet/test_fleet_scripts.py"),
    Mutant("idle machines stay", "controller.planning.scale_down",
        "found.ripe.append((machine, since, _why(snapshot, machine, since, old)))", "told[machine.name] = _why(snapshot, machine, since, old)", (PLAIN,)),
    Mutant("a machine that is deleted slowly keeps the idle ones beside it", "controller.planning.disruption",
        "return moment is not None and now >= moment", "return False", (PLAIN,), "tests/planning/test_planning_leaving.py"),
    Mutant("a machine that vanished is waited for", "controller.fleet.life",
        "return failed(machine, Reason.VANISHED, now)", "return machine", (HAND,)),
    Mutant("GPUs that never come are waited for", "controller.fleet.life",
        "if now > machine.node_ready_at + limits.gpu and not seen.blind:", "if False:", (NEVER,), "tests/fleet/test_fleet_life.py"),
    Mutant("a machine that never runs is waited for", "controller.fleet.life",
        "if now > machine.ordered_at + limits.launch:", "if False:", (NEVER,), "tests/fleet/test_fleet_life.py"),
    Mutant("a machine that never joins is waited for", "controller.fleet.life",
        "if now > machine.running_at + limits.join and not seen.blind:", "if False:", (NEVER,), "tests/fleet/test_fleet_life.py"),
    Mutant("pods whose machines never became usable are given up for ever", "controller.planning.another_try",
        "        turns.let |= keys\n", "        pass\n", (OUTAGE,)),
    Mutant("what never became usable is bought again at once", "controller.planning.pauses",
        "return last + pause if 0 <= snapshot.now - last < pause else None", "return None",
        tests="tests/fleet/test_fleet_another_try.py"),
    Mutant("a machine found by its marks is not adopted", "controller.fleet.engine",
        "        found = self._sightings.unknown(self.ledger.machines)\n", "        return False\n        found = self._sightings.unknown(self.ledger.machines)\n", ("an order arrives late", LIES),
        "tests/fleet/test_fleet_restart.py"),
    Mutant("a try begins with the last failure", "controller.domain.tries",
        "if machine.intended_at > began else", "if machine.intended_at > known.last else", (NEVER,),
        "tests/simulator/test_simulator_in_vain.py"),
    Mutant("each pod that comes later is bought for anew", "controller.planning.in_vain",
        "if against:\n", "if False:\n", (NEVER,), "tests/simulator/test_simulator_in_vain.py"),
    Mutant("whatever held long ago ends the doubt of what broke since", "controller.fleet.failures",
        "if known is not None and machine.ready_at > ended_by_later(known, machine.kind):", "if known is not None:", (NEVER,), "tests/fleet/test_fleet_breaks_soon.py"),
    Mutant("pods made anew get one that breaks after the other", "controller.fleet.lessons",
        "if not self._holds(machine, since):", "if not machine.pods and not self._holds(machine, since):", (NEVER,), "tests/fleet/test_fleet_breaks_soon.py"),
    Mutant("one list counts as often as it is looked at", "controller.fleet.listing",
        "self._sightings.number > self._judged", "self._sightings.number >= self._judged", (NEVER,), "tests/fleet/test_fleet_lists_in_order.py"),
    Mutant("a list is numbered when it arrives", "controller.fleet.listing",
        "        return await self._cloud.inventory(), number\n", "        return await self._cloud.inventory(), self._asked\n", (NEVER,), "tests/fleet/test_fleet_lists_in_order.py"),
    Mutant("one that works ends what is held against all of its pool", "controller.domain.tries",
        "    if not sorts:\n", "    if True:\n", (NEVER,), "tests/fleet/test_fleet_elsewhere.py"),
    Mutant("the same that failed is tried again and again", "controller.planning.narrowing",
        "first = min(known.values())", "first = max(known.values())", (NEVER,), "tests/planning/test_planning_doubt.py"),
    Mutant("who is not seen to join has not joined", "controller.fleet.life",
        "limits.join and not seen.blind:", "limits.join:", (NEVER,), "tests/simulator/test_simulator_in_vain.py"),
    Mutant("one list that says error is believed", "controller.fleet.life",
        "return not works or bool(lasts)", "return True", (NEVER,),
        "tests/fleet/test_fleet_of_no_use_for_a_while.py"),
    Mutant("a pause does not hold for a machine without its GPUs", "controller.fleet.life",
        "and not busy and not seen.kept:", "and not busy:", (NEVER,),
        "tests/fleet/test_fleet_of_no_use_for_a_while.py"),
    Mutant("a gang is tried in one location only", "controller.planning.locations",
        "again |= place.others", "pass", (PLAIN,), "tests/planning/test_planning_locations.py"),
    Mutant("gangs that fail are left out together", "controller.planning.incomplete",
        "first = next((key for key in broken if key in held), None)", "first = None", (PLAIN,),
        "tests/planning/test_planning_locations.py"),
    Mutant("a turn that a gang had taken is not given back when that is left out", "controller.planning.drafts",
        "        self.passed.clear()\n", "", (PLAIN,), "tests/planning/test_planning_doubt.py"),
    Mutant("machines that the cloud starts too late are bought one after the other", "controller.fleet.lessons",
        "for pod in pods:\n                    self._ledger", "for pod in pods[after.reason is Reason.LAUNCH_DEADLINE and len(pods):]:\n                    self._ledger", (PLAIN,), "tests/fleet/test_fleet_another_try.py"),
    Mutant("pods are not asked to leave where the grace is short", "controller.fleet.removal",
        "max(policy.deadlines.drained_by(begin), self._clock() + _LEAST_GRACE)", "policy.deadlines.drained_by(begin)",
        (PLAIN,), "tests/fleet/test_fleet_removal.py"),
    Mutant("free machines that are outdated go all at once", "controller.planning.scale_down",
        "not_ready = {*buying, *(", "not_ready = {*(", (PLAIN,), "tests/planning/test_planning_headroom.py"),
    Mutant("who had machines too late waits for any that is on its way", "controller.planning.another_try",
        "unit.sorts & coming", "coming", (PLAIN,), "tests/planning/test_planning_doubt.py"),
    Mutant("a second instance that is not ours by now is deleted", "controller.fleet.leaving",
        "if intent_of(policy.cluster_id, instance) != intent:", "if False:", (PLAIN,), "tests/fleet/test_fleet_launch.py"),
    Mutant("what is granted after its tombstone is kept", "controller.fleet.buying",
        "surplus=True, reason=Reason.SURPLUS, gone_at=0.0", "gone_at=0.0", (PLAIN,), "tests/fleet/test_fleet_launch.py"),
    Mutant("pods without GPUs are not asked to leave", "controller.fleet.removal",
        "refusal = await self._evict(asked, check)", "refusal = None", (LEAVE,)),
]  # fmt: skip

# Without a bug the same stories pass, or they say nothing.
NOTHING = Mutant(
    "no bug at all", "", "", "", tuple(sorted({story for one in MUTANTS for story in one.stories}))
)


# -- one bug, in this process


class _Wrong(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, and gives it other text."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._path = ROOT / (mutant.module.replace(".", "/") + ".py")
        text = self._path.read_text(encoding="utf-8")
        if text.count(mutant.right) < 1:
            raise SystemExit(f"{mutant.name}: {mutant.module} has no such text any more")
        self._text = text.replace(mutant.right, mutant.wrong)

    def find_spec(
        self, name: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._mutant.module:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._text, str(self._path), "exec"), module.__dict__)  # noqa: S102


def try_one(name: str) -> int:
    """The exit code."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    mutant = next((one for one in MUTANTS if one.name == name), NOTHING)
    if mutant is not NOTHING:
        sys.meta_path.insert(0, _Wrong(mutant))
    from tests.simulator import days
    from tests.simulator.stories import STORIES

    days.STOP_EARLY = True
    first = [story for told in mutant.stories for story in STORIES[told]]
    for story in first:
        try:
            violations = story(0).result["violations"]
        except Exception as error:  # noqa: BLE001 - a program that ends is caught as well
            violations = [repr(error)]
        if violations:
            print(f"caught by a story: {violations[0]}")
            return CAUGHT
    if mutant.tests:
        import pytest

        told = pytest.main(
            [*mutant.tests.split(), "-q", "-x", "--no-header", "-p", "no:cacheprovider", "--tb=no"]
        )
        if told not in (0, TESTS_FAILED):
            raise SystemExit(f"{mutant.name}: pytest ended with {told}")
        if told == TESTS_FAILED:
            print("caught by a test")
            return CAUGHT
    return MISSED


# -- all of them


def _run(mutant: Mutant) -> tuple[Mutant, bool | None, str, float]:
    began = time.monotonic()
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.simulator.mutants", "--one", mutant.name]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=PATIENCE
        )
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        how = lines[-1] if lines else ""
        if done.returncode not in (CAUGHT, MISSED):
            return mutant, None, f"NO VERDICT: {how}", time.monotonic() - began
        caught: bool | None = done.returncode == CAUGHT
    except subprocess.TimeoutExpired:
        caught, how = None, f"no verdict within {PATIENCE:g} s"
    return mutant, caught, how, time.monotonic() - began


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--one"]:
        return try_one(arguments[1])
    _, caught, how, _ = _run(NOTHING)
    if caught is not False:
        print(f"stories fail without any deliberate bug: {how}")
        return 1
    chosen = [m for m in MUTANTS if not arguments or any(part in m.name for part in arguments)]
    missed = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for mutant, caught, how, seconds in pool.map(_run, chosen):
            print(
                f"{'caught' if caught else 'MISSED'} {seconds:5.0f} s  {mutant.name}: {how[:150]}", flush=True
            )
            if not caught:
                missed.append(mutant.name)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} deliberate bugs are caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
