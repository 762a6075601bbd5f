"""Who a machine's kubelet is, as the product's startup script really says it to k3s or kubeadm.

The script writes its own settings files, below a folder of ours; what k3s or kubeadm would make of those
into the kubelet's flags is told here. The `# gpuas-join` line, by which the sandbox's kubelets join, has
to say the same.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_JOIN = re.compile(r"^# gpuas-join (\{.*\})$", re.MULTILINE)
_LAST_LINE = 'main "$@"'
_WRITES = {"k3s": "write_config", "kubeadm": "write_configuration"}


class Identity(NamedTuple):
    name: str
    provider_id: str
    labels: dict[str, str]
    taints: list[str]  # key=value:Effect
    bootstrap: dict[str, Any] | None  # the kubeconfig of its first request, where the script brings one

    def flags(self) -> list[str]:
        flags = {
            "hostname-override": self.name,
            "provider-id": self.provider_id,
            "node-labels": ",".join(f"{key}={value}" for key, value in self.labels.items()),
            "register-with-taints": ",".join(self.taints),
        }
        return [f"--{flag}={value}" for flag, value in flags.items() if value]


def told_by(script: str) -> Identity:
    """What the join line says."""
    found = _JOIN.search(script)
    assert found, "the script has no join line"
    join = json.loads(found[1])
    return Identity(
        join["node"], join["provider_id"], join["labels"], [_taint(t) for t in join["taints"]], None
    )


def written_by(script: str, folder: Path) -> Identity:
    """What the script's own settings files say, which it writes below the folder."""
    kind = "k3s" if "write_config()" in script else "kubeadm"
    head, _, rest = script.rpartition(_LAST_LINE)
    assert not rest.strip(), "the script does not end as expected"
    moved = head.replace("/etc/", f"{folder}/etc/")
    subprocess.run(["bash", "-s"], input=f"{moved}{_WRITES[kind]}\n", text=True, check=True, timeout=30)
    return (_k3s if kind == "k3s" else _kubeadm)(folder / "etc")


def _k3s(etc: Path) -> Identity:
    settings = yaml.safe_load((etc / "rancher/k3s/config.yaml").read_text())
    arguments = _pairs(settings["kubelet-arg"])
    assert set(arguments) == {"provider-id"}
    return Identity(
        settings["node-name"],
        arguments["provider-id"],
        _pairs(settings["node-label"]),
        settings["node-taint"],
        None,
    )


def _kubeadm(etc: Path) -> Identity:
    configuration = json.loads((etc / "kubernetes/gpuas-join/join.yaml").read_text())
    registration, discovery = configuration["nodeRegistration"], configuration["discovery"]
    arguments = {each["name"]: each["value"] for each in registration["kubeletExtraArgs"]}
    assert set(arguments) == {"provider-id", "node-labels"}
    return Identity(
        registration["name"],
        arguments["provider-id"],
        _pairs(arguments["node-labels"].split(",")),
        [_taint(taint) for taint in registration["taints"]],
        _bootstrap(Path(discovery["file"]["kubeConfigPath"]), discovery["tlsBootstrapToken"]),
    )


def _bootstrap(discovery: Path, token: str) -> dict[str, Any]:
    """The bootstrap-kubelet.conf that kubeadm makes: the cluster of the discovery file, and the token."""
    cluster = json.loads(discovery.read_text())["clusters"][0]["cluster"]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubernetes", "cluster": cluster}],
        "users": [{"name": "tls-bootstrap-token-user", "user": {"token": token}}],
        "contexts": [
            {"name": "join", "context": {"cluster": "kubernetes", "user": "tls-bootstrap-token-user"}}
        ],
        "current-context": "join",
    }


def _pairs(texts: list[str]) -> dict[str, str]:
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def _taint(taint: dict[str, str]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
