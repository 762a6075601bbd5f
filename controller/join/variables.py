"""What the templates' variables are worth for one machine: pure, and checked against Kubernetes' rules.

Everything structured (lists for k3s, kubeadm's documents) is handed over as JSON on one line: it is
YAML as it stands, so the scripts never assemble any.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from controller.domain import names
from controller.domain.kube import Taint
from controller.domain.node_labels import OLD_INSTANCE_TYPE, kubelet_may_set
from controller.join.entry import Entry, exact_version, k3s_release, minor_version, server_address
from controller.join.protocol import JoinError, Joining

_BOOTSTRAP_TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_NAME_PART = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DISCOVERY_FILE = "/etc/kubernetes/gpuas-join/discovery.conf"


def comments(joining: Joining) -> dict[str, str]:
    """The two lines by which the script is recognised as ours and by which it tells who it makes."""
    told = {
        "node": joining.name,
        "provider_id": joining.provider_id,
        "labels": own_labels(joining),
        "taints": [_taint(taint) for taint in joining.taints],
    }
    return {
        "MARK": names.script_mark(joining.cluster_id, joining.intent),
        "JOIN": f"# gpuas-join {_json(told)}",
    }


def k3s(joining: Joining, entry: Entry, token: str) -> dict[str, str]:
    release, channel = k3s_release(entry.version)
    return {
        "NODE_NAME": joining.name,
        "PROVIDER_ID": joining.provider_id,
        "SERVER": entry.server.rstrip("/"),
        "TOKEN": k3s_token(token, entry.ca_hash),
        "NODE_LABELS": _json([f"{key}={value}" for key, value in own_labels(joining).items()]),
        "NODE_TAINTS": _json([str(taint) for taint in joining.taints]),
        "GPUS": str(joining.gpus),
        "K3S_VERSION": release,
        "K3S_CHANNEL": channel,
    }


def kubeadm(joining: Joining, entry: Entry, token: str) -> dict[str, str]:
    if not _BOOTSTRAP_TOKEN.fullmatch(token):
        raise JoinError("the token is no kubeadm bootstrap token (six characters, a dot, sixteen characters)")
    return {
        "NODE_NAME": joining.name,
        "SERVER": entry.server.rstrip("/"),
        "JOIN_CONFIGURATION": _json(join_configuration(joining, entry, token)),
        "DISCOVERY": _json(_discovery(entry)) if entry.ca_cert else "",
        "GPUS": str(joining.gpus),
        "KUBERNETES_MINOR": minor_version(entry.version),
        "KUBERNETES_VERSION": exact_version(entry.version),
    }


def k3s_token(token: str, ca_hash: str) -> str:
    """The full form, by which the agent checks the server before it says anything to it."""
    if not ca_hash or token.startswith("K10"):
        return token
    # An agent presents itself as the user `node` whatever the token; bootstrap tokens name no user.
    user = "" if _BOOTSTRAP_TOKEN.fullmatch(token) else "node:"
    return f"K10{ca_hash.removeprefix('sha256:')}::{user}{token}"


def join_configuration(joining: Joining, entry: Entry, token: str) -> dict[str, Any]:
    arguments = [{"name": "provider-id", "value": joining.provider_id}]
    labels = own_labels(joining)
    if labels:
        arguments.append({"name": "node-labels", "value": ",".join(f"{k}={v}" for k, v in labels.items())})
    # Discovery by token only finds the cluster by our address and then goes on with the one that the
    # cluster publishes; a file keeps the machine on ours.
    discovery: dict[str, Any] = (
        {"file": {"kubeConfigPath": _DISCOVERY_FILE}}
        if entry.ca_cert
        else {
            "bootstrapToken": {
                "token": token,
                "apiServerEndpoint": _endpoint(entry),
                "caCertHashes": [f"sha256:{entry.ca_hash.removeprefix('sha256:')}"],
            }
        }
    )
    return {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {**discovery, "tlsBootstrapToken": token},
        "nodeRegistration": {
            "name": joining.name,
            "criSocket": "unix:///run/containerd/containerd.sock",
            "taints": [_taint(taint) for taint in joining.taints],
            "kubeletExtraArgs": arguments,
        },
    }


def own_labels(joining: Joining) -> dict[str, str]:
    """The labels that the kubelet registers with; those it may not set are added to the Node later.

    Pods may select the type by its older name, and it is planned with; so it has to be there everywhere.
    """
    labels = dict(joining.labels)
    if kind := labels.get(names.LABEL_INSTANCE_TYPE):
        labels.setdefault(OLD_INSTANCE_TYPE, kind)
    for key, value in labels.items():
        if not _is_key(key) or (value and not _NAME_PART.fullmatch(value)):
            raise JoinError(f"label {key}={value} is not one that Kubernetes accepts")
    return {key: value for key, value in sorted(labels.items()) if kubelet_may_set(key)}


def check_taints(taints: tuple[Taint, ...]) -> None:
    for taint in taints:
        value_fits = not taint.value or _NAME_PART.fullmatch(taint.value)
        if not _is_key(taint.key) or not value_fits or taint.effect not in _EFFECTS:
            raise JoinError(f"taint {taint} is not one that Kubernetes accepts")


def _is_key(key: str) -> bool:
    domain, slash, name = key.rpartition("/")
    return bool(_NAME_PART.fullmatch(name)) and (not slash or bool(_DOMAIN.fullmatch(domain)))


def _taint(taint: Taint) -> dict[str, str]:
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}


def _discovery(entry: Entry) -> dict[str, Any]:
    authority = base64.b64encode(entry.ca_cert.encode()).decode()
    cluster = {"server": f"https://{_endpoint(entry)}", "certificate-authority-data": authority}
    return {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]}


def _endpoint(entry: Entry) -> str:
    parts = server_address(entry.server)
    if parts is None or parts.hostname is None:
        raise JoinError(f"server must look like https://host:6443, not {entry.server!r}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or 443}"


def _json(value: Mapping[str, Any] | list[str]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
