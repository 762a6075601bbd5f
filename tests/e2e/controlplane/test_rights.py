"""The chart's rules are enough, each of them is needed, and without any one of them nothing is bought.

Rules for kinds that not every cluster has are proven on one that has them all; without one of those rules
the program tells so and does the rest of its work. What is used is read from the API server's audit log. What is refused is tried with a ServiceAccount of
its own that has all rules but one.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kubernetes import client

from controller.cluster.rights import RIGHTS, Right
from tests.e2e.controlplane import access, addons
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.scene import NAMESPACE, SETTINGS, Scene, running, runs, until
from tests.e2e.programs import Started, run

# What the API server cannot be made to serve: addons.py tells why.
SERVED = [right for right in RIGHTS if right.plural != "workloads"]
NEEDED = [right for right in RIGHTS if not right.optional]
OPTIONAL = [right for right in SERVED if right.optional]
STATUS = "gpu-autoscaler-status"
UNREAD = re.compile(r"(\S+) cannot be read")
AT_ONCE = 3  # controllers that are started side by side
# What asks of itself what it may do is granted to everybody who is authenticated.
OF_EVERYBODY = {"create selfsubjectaccessreviews.authorization.k8s.io"}


def asked_of(entry: dict[str, Any]) -> str:
    """An entry of the audit log, as a line of the table of rights."""
    target = entry["objectRef"]
    group = f".{target['apiGroup']}" if target.get("apiGroup") else ""
    part = f"/{target['subresource']}" if target.get("subresource") else ""
    return f"{entry['verb']} {target['resource']}{group}{part}"


@pytest.fixture
def gangs(admin: client.ApiClient) -> Iterator[None]:
    with addons.gangs(admin):
        yield


@pytest.mark.usefixtures("gangs")
@pytest.mark.long
def test_every_rule_is_used_and_nothing_else_is_asked_for(
    scene: Scene, kubelets: Kubelets, plane: ControlPlane
) -> None:
    before = len(plane.audited(NAMESPACE))
    pools = [SETTINGS["pools"][0] | {"max": 1}]
    command = scene.command({"cluster_id": None, "pools": pools})
    with running(Started(command, scene.home, {"DEPLOYMENT_NAME": "gpu-autoscaler"})):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"))
        scene.pod("helper", 0, nodeName=scene.nodes()[0])
        may_go = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
        scene.core.patch_namespaced_pod("helper", "default", {"metadata": {"annotations": may_go}})
        scene.pod("late", 1)
        until("the limit is told", lambda: "limit" in scene.events("late").get("NotTriggerScaleUp", ""))
        until("the status is written", lambda: STATUS in scene.config_maps(NAMESPACE))
        for value, words in (("scale-up", "paused"), (None, "limit")):  # the same words again are counted
            mark = {"metadata": {"annotations": {"gpu-autoscaler/pause": value}}}
            scene.core.patch_namespaced_config_map(STATUS, NAMESPACE, mark)
            until(f"{words} is told last", lambda words=words: words in scene.last_event("late"))
        scene.delete_pod("late")
        scene.delete_pod("train")
        until("nothing is left in the account", scene.empty)
        until("no Node is left", lambda: not scene.nodes())
        time.sleep(1)
    entries = [entry for entry in plane.audited(NAMESPACE)[before:] if entry.get("objectRef")]
    refused = [asked_of(entry) for entry in entries if entry["responseStatus"]["code"] == 403]
    assert not refused
    used = {asked_of(entry) for entry in entries} - OF_EVERYBODY
    assert used == {f"{right.verb} {right.resource}" for right in SERVED}


def _path(right: Right) -> str:
    return right.plural + (f"/{right.subresource}" if right.subresource else "")


def _split(rules: list[dict[str, Any]], rule: dict[str, Any], right: Right) -> None:
    """Take one verb on one resource out of a rule; what else the rule says stays."""
    whole = dict(rule)
    rule |= {"apiGroups": [right.group], "resources": [_path(right)]}
    rule["verbs"] = [verb for verb in whole["verbs"] if verb != right.verb]
    others = [name for name in whole["resources"] if name != _path(right)]
    groups = [name for name in whole["apiGroups"] if name != right.group]
    if others:
        rules.append(whole | {"resources": others})
    if groups:
        rules.append(whole | {"apiGroups": groups, "resources": [_path(right)]})


def without(objects: access.Objects, right: Right) -> access.Objects:
    """The chart's objects, one verb on one resource taken out of their rules."""
    found = 0
    for each in objects:
        if (each["kind"] == "Role") != right.own_namespace:
            continue
        for rule in list(each.get("rules", ())):
            if (
                right.group in rule["apiGroups"]
                and _path(right) in rule["resources"]
                and right.verb in rule["verbs"]
            ):
                found += 1
                _split(each["rules"], rule, right)
        if "rules" in each:
            each["rules"] = [rule for rule in each["rules"] if rule["verbs"]]
    assert found == 1, f"the chart has {found} rules for {right.verb} {right.resource}"
    return objects


@pytest.mark.parametrize("verb", sorted({right.verb for right in NEEDED}))
def test_without_any_one_rule_nothing_is_bought_and_the_missing_one_is_named(
    scene: Scene, plane: ControlPlane, admin: client.ApiClient, helm_bin: str, verb: str
) -> None:
    """Each is tried by a controller of its own, a few at once, on the same pod and the same account."""
    scene.pod("train", 1)
    chart = access.rendered(helm_bin, "lacking")
    rights = {number: right for number, right in enumerate(NEEDED) if right.verb == verb}

    def ended_without(number: int) -> subprocess.CompletedProcess[str]:
        objects = without(access.renamed(chart, "lacking", f"lacking-{number}"), rights[number])
        access.create(admin, objects)
        try:
            path = access.kubeconfig(plane, admin, objects, scene.home / f"lacking-{number}.kubeconfig")
            return run(scene.command(name=f"lacking-{number}", kubeconfig=path), scene.home, limit=60)
        finally:
            access.delete(admin, objects)

    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        for right, ended in zip(rights.values(), pool.map(ended_without, rights), strict=True):
            named = "" if right.resource != "secrets" else " join"
            assert ended.returncode == 3, (right, ended.stderr)
            assert f"{right.verb} {right.resource}{named}" in ended.stderr
    assert scene.state()["creates"] == 0


@pytest.mark.usefixtures("gangs")
def test_without_the_rules_for_optional_kinds_that_is_told_and_everything_else_goes_on(
    scene: Scene, kubelets: Kubelets, plane: ControlPlane, admin: client.ApiClient, helm_bin: str
) -> None:
    objects = access.rendered(helm_bin, "lacking")
    for right in OPTIONAL:
        objects = without(objects, right)
    access.create(admin, objects)
    try:
        scene.kubeconfig = access.kubeconfig(plane, admin, objects, scene.home / "lacking.kubeconfig")
        controller = Started(scene.command(), scene.home)
        with running(controller):
            scene.pod("train", 1)
            until("it runs", lambda: runs(scene, "train"))
            said = "\n".join(controller.complaints)
    finally:
        access.delete(admin, objects)
    assert sorted(UNREAD.findall(said)) == sorted({right.resource for right in OPTIONAL})
    scene.delete_pod("train")


@pytest.mark.usefixtures("gangs")
@pytest.mark.parametrize("verb", sorted({right.verb for right in OPTIONAL}))
def test_without_any_one_rule_for_an_optional_kind_exactly_that_one_is_told(
    scene: Scene, plane: ControlPlane, admin: client.ApiClient, helm_bin: str, verb: str
) -> None:
    """Each is told by a controller of its own, a few at once, which goes on until it is ended."""
    chart = access.rendered(helm_bin, "lacking")
    rights = {number: right for number, right in enumerate(OPTIONAL) if right.verb == verb}

    def told_without(number: int) -> list[str]:
        objects = without(access.renamed(chart, "lacking", f"lacking-{number}"), rights[number])
        access.create(admin, objects)
        try:
            path = access.kubeconfig(plane, admin, objects, scene.home / f"lacking-{number}.kubeconfig")
            settings = {"cluster_id": f"lacking-{number}"}
            controller = scene.controller(settings, f"lacking-{number}", kubeconfig=path)
            with running(controller):
                until("it tells", lambda: UNREAD.search("\n".join(controller.complaints)))
            assert controller.process.returncode == 0, controller.complaints
            return UNREAD.findall("\n".join(controller.complaints))
        finally:
            access.delete(admin, objects)

    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        for right, told in zip(rights.values(), pool.map(told_without, rights), strict=True):
            assert told == [right.resource]
