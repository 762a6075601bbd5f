"""Objects that the probes send, as small as they can be."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.probe import QUIET

STILL = {"node.alpha.kubernetes.io/ttl": "0"}  # what a controller would add to a node at its own time
OTHER = "11111111-1111-4111-8111-111111111111"  # a uid that nothing has
NOWHERE = "none-<tag>"  # a node that is not there
IMAGE = "example/work:1"


def named(name: str, **more: Any) -> Any:
    """An object with a name and whatever else."""
    return {"metadata": {"name": name}, **more}


def a_map(name: str, **meta: Any) -> Any:
    return {"metadata": {"name": name, **meta}, "data": {"a": "1"}}


def labelled(name: str, **labels: str) -> Any:
    return a_map(name, labels=labels)


def a_container(**more: Any) -> Any:
    return {"name": "main", "image": IMAGE, **more}


def a_pod(name: str, app: str = "", **spec: Any) -> Any:
    """No scheduler and no kubelet touches it."""
    meta = {"name": name} | ({"labels": {"app": app}} if app else {})
    return {"metadata": meta, "spec": {**QUIET, "containers": [a_container()], **spec}}


def a_node(name: str, **more: Any) -> Any:
    return {"metadata": {"name": f"{name}-<tag>", "annotations": STILL}, **more}


def a_template(app: str, restart: str = "", **spec: Any) -> Any:
    """Its pods fit nowhere."""
    held = {"containers": [a_container()], "nodeSelector": {"no": "node"}, "schedulerName": "nobody", **spec}
    meta = {"labels": {"app": app}}
    return {"metadata": meta, "spec": held | ({"restartPolicy": restart} if restart else {})}


def a_set(name: str, app: str = "", **spec: Any) -> Any:
    """A Deployment, a ReplicaSet, a StatefulSet or a DaemonSet without replicas."""
    app = app or name
    chosen = {"selector": {"matchLabels": {"app": app}}, "template": a_template(app)}
    return named(name, spec={"replicas": 0, **chosen, **spec})


def a_job(name: str, **spec: Any) -> Any:
    pods = {"spec": {"restartPolicy": "Never", "containers": [a_container()]}}
    return named(name, spec={"suspend": True, "template": pods, **spec})


def a_budget(name: str, app: str, **spec: Any) -> Any:
    return named(name, spec={"selector": {"matchLabels": {"app": app}}, **spec})


def an_owner(kind: str, name: str, uid: str, version: str = "v1", **more: Any) -> Any:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, **more}


def options(**more: Any) -> Any:
    return {"kind": "DeleteOptions", "apiVersion": "v1", **more}


def preconditions(**more: str) -> Any:
    return options(preconditions=more)


def eviction(name: str, **told: Any) -> Any:
    meta = {"name": name, "namespace": "<ns>"}
    made = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    return made | ({"deleteOptions": told} if told else {})


def binding(name: str, node: str, **meta: Any) -> Any:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    head = {"apiVersion": "v1", "kind": "Binding"}
    return head | {"metadata": {"name": name, "namespace": "<ns>", **meta}, "target": target}
