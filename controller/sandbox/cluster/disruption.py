"""Disruption budgets: their status, and the eviction door that honours them.

The answer of an eviction that a budget forbids is 429 with the cause DisruptionBudget, and with the
numbers in the cause's message: this is what `kubectl drain` waits on.
"""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import Any

from controller.sandbox.cluster import decoding, errors, removal
from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.conditions import set_condition, set_doom
from controller.sandbox.cluster.errors import bad_request, internal, too_many
from controller.sandbox.cluster.options import delete_options, write_options
from controller.sandbox.cluster.resources import BUDGETS, BY_KIND, PODS, Obj
from controller.sandbox.cluster.selectors import matches
from controller.sandbox.cluster.shape import Notes
from controller.sandbox.cluster.shelf import Change, Key
from controller.sandbox.cluster.store import Store
from controller.sandbox.wire import Request, Response

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


class Disruption:
    def __init__(self, store: Store, agenda: Agenda) -> None:
        self.store = store
        self.agenda = agenda
        self._budgets: dict[str, set[Key]] = {}  # by namespace
        store.follow(BUDGETS, self._budget_changed)
        store.follow(PODS, self._pod_changed)

    def _budget_changed(self, change: Change) -> None:
        key = change.item.key
        if change.verb == "DELETED":
            self._budgets.get(key[0], set()).discard(key)
            return
        self._budgets.setdefault(key[0], set()).add(key)
        self.agenda.soon(("budget", key), lambda: self._count(key))

    def _pod_changed(self, change: Change) -> None:
        for key in self._budgets.get(change.item.key[0], ()):
            self.agenda.soon(("budget", key), partial(self._count, key))

    def _count(self, key: Key) -> Obj | None:
        """Work out and write the status of a budget."""

        def change(budget: Obj) -> None:
            status = budget.setdefault("status", {})
            status |= self._figures(budget)
            status["observedGeneration"] = budget["metadata"].get("generation", 1)
            allowed = status["disruptionsAllowed"] > 0
            set_condition(
                status,
                self.store.now(),
                type="DisruptionAllowed",
                status="True" if allowed else "False",
                reason="SufficientPods" if allowed else "InsufficientPods",
                message="",
                observedGeneration=status["observedGeneration"],
            )

        return self.store.modify(BUDGETS, key, change) or self.store.get(BUDGETS, *key)

    def _figures(self, budget: Obj) -> Obj:
        spec = budget.get("spec") or {}
        namespace = budget["metadata"]["namespace"]
        pods = [
            pod
            for item in self.store.shelf(PODS).span(namespace)
            if matches(item.labels, spec.get("selector"))
            for pod in (item.decode(),)
        ]
        healthy = sum(_healthy(pod) for pod in pods)
        expected = len(pods)
        if spec.get("maxUnavailable") is not None:
            expected = self._expected(pods)
            desired = max(0, expected - _share(spec["maxUnavailable"], expected))
        elif isinstance(spec.get("minAvailable"), str):
            expected = self._expected(pods)
            desired = _share(spec["minAvailable"], expected)
        else:
            desired = int(spec.get("minAvailable", 1))
        allowed = max(0, healthy - desired) if expected > 0 else 0
        return {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
        }

    def _expected(self, pods: list[Obj]) -> int:
        """What the pods' controllers want; pods without one count for nothing."""
        owners: dict[str, int] = {}
        for pod in pods:
            ref = next((r for r in pod["metadata"].get("ownerReferences") or () if r.get("controller")), None)
            resource = BY_KIND.get((ref["apiVersion"].rpartition("/")[0], ref["kind"])) if ref else None
            owner = (
                self.store.get(resource, pod["metadata"]["namespace"], ref["name"])
                if resource and ref
                else None
            )
            if owner is not None and ref is not None:
                spec = owner["spec"]
                owners[ref["uid"]] = int(spec.get("replicas", spec.get("parallelism", 1)))
        return sum(owners.values())

    # ---- eviction

    def evict(self, namespace: str, name: str, request: Request) -> Response:
        options = write_options(request, "CreateOptions")
        notes = Notes()
        try:
            value = decoding.read(request, notes) or {}
        except ValueError as problem:
            raise bad_request(
                f"the object provided is unrecognized (must be of type Eviction): {problem}"
            ) from None
        body, _ = decoding.as_kind(PODS, value, options, notes, kind="Eviction", message="policy.Eviction")
        if body["metadata"].get("name") != name:
            raise bad_request("name in URL does not match name in Eviction object")
        told = delete_options(request, body.get("deleteOptions"))
        self._evict(namespace, name, told.grace, told.uid, told.version, dry=options.dry or told.dry)
        return Response.of_json(201, errors.success(code=201))

    def _evict(
        self, namespace: str, name: str, grace: int | None, uid: str | None, version: str | None, *, dry: bool
    ) -> None:
        item = self.store.item(PODS, namespace, name)
        if item is None:
            raise errors.not_found(PODS, name)
        pod = item.decode()
        labels = pod["metadata"].get("labels") or {}
        counted = pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        budgets = [
            key
            for key in sorted(self._budgets.get(namespace, ()))
            if matches(labels, ((self.store.get(BUDGETS, *key) or {}).get("spec") or {}).get("selector"))
        ]
        if counted and len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise internal(text)
        if counted and budgets:
            self._check(budgets[0], pod)
        removal.check(PODS, item, uid, version)

        def doom(held: Obj) -> None:
            set_doom(held, self.store.now(), "EvictionByEvictionAPI", "Eviction API: evicting")

        if not dry and pod["spec"].get("nodeName"):
            self.store.modify(PODS, (namespace, name), doom)
        self.store.delete(PODS, (namespace, name), grace=grace, dry=dry)

    def _check(self, key: Key, pod: Obj) -> None:
        budget = self._count(key)
        if budget is None:
            return
        status, policy = budget["status"], (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy")
        if not _healthy(pod) and (
            policy == "AlwaysAllow" or status["currentHealthy"] >= status["desiredHealthy"] > 0
        ):
            return
        if status["disruptionsAllowed"] > 0:
            return
        needed, healthy = status["desiredHealthy"], status["currentHealthy"]
        text = f"The disruption budget {key[1]} needs {needed} healthy pods and has {healthy} currently"
        if healthy > needed:
            text = f"The disruption budget {key[1]} does not allow evicting pods currently"
        raise too_many(REFUSED, {"causes": [{"reason": "DisruptionBudget", "message": text}]})


def _healthy(pod: Obj) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    held = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in held)


def _share(value: Any, whole: int) -> int:
    """An integer or a percentage, which is rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return ceil(whole * int(value[:-1]) / 100)
    return int(value)
