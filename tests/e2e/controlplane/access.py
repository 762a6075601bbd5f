"""ServiceAccounts for controllers: with exactly the rules that the chart renders, or with one taken out."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.e2e.controlplane.plane import ControlPlane, rights_of
from tests.e2e.controlplane.scene import NAMESPACE, SETTINGS
from tests.e2e.programs import ROOT

Objects = list[dict[str, Any]]
LONGEST_RUN = 24 * 3600  # seconds; by itself a token ends after an hour, in the middle of a long soak


def controller_kubeconfig(plane: ControlPlane, admin: client.ApiClient, helm: str) -> Path:
    """Make namespace, join token, ServiceAccount and rights, and the kubeconfig of that account."""
    core = client.CoreV1Api(admin)
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    core.create_namespaced_secret(
        NAMESPACE, {"metadata": {"name": "join"}, "stringData": {"token": "K10x::server:y"}}
    )
    made = rendered(helm, "gpuas")
    create(admin, made)
    return kubeconfig(plane, admin, made, plane.folder / "controller.kubeconfig")


def rendered(helm_bin: str, release: str) -> Objects:
    """What the chart makes of a release that decides who may do what."""
    values = yaml.safe_dump({"config": SETTINGS, "existingSecret": "verda"})
    chart = str(ROOT / "charts" / "verda-gpu-autoscaler")
    made = subprocess.run(
        [helm_bin, "template", release, chart, "-n", NAMESPACE, "-f", "-"],
        input=values, capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    return [dict(each) for each in rights_of(made, NAMESPACE)]


def renamed(objects: Objects, release: str, other: str) -> Objects:
    """The same of a release with another name."""
    made: Objects = json.loads(json.dumps(objects).replace(release, other))
    return made


def create(admin: client.ApiClient, objects: Sequence[Mapping[str, Any]]) -> None:
    for each in objects:
        _calls(admin, "create")[each["kind"]](each)


def delete(admin: client.ApiClient, objects: Sequence[Mapping[str, Any]]) -> None:
    for each in objects:
        with contextlib.suppress(ApiException):
            _calls(admin, "delete")[each["kind"]](each["metadata"]["name"])


def _calls(admin: client.ApiClient, verb: str) -> dict[str, Callable[[Any], object]]:
    core, rbac = client.CoreV1Api(admin), client.RbacAuthorizationV1Api(admin)
    account = getattr(core, f"{verb}_namespaced_service_account")
    role = getattr(rbac, f"{verb}_namespaced_role")
    binding = getattr(rbac, f"{verb}_namespaced_role_binding")

    def spaced(call: Callable[..., object]) -> Callable[[Any], object]:
        return lambda it: call(NAMESPACE, it) if verb == "create" else call(it, NAMESPACE)

    return {
        "ServiceAccount": spaced(account),
        "ClusterRole": getattr(rbac, f"{verb}_cluster_role"),
        "ClusterRoleBinding": getattr(rbac, f"{verb}_cluster_role_binding"),
        "Role": spaced(role),
        "RoleBinding": spaced(binding),
    }


def kubeconfig(plane: ControlPlane, admin: client.ApiClient, objects: Objects, path: Path) -> Path:
    """With a fresh token of the ServiceAccount among these objects."""
    account = next(each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount")
    token = token_of(client.CoreV1Api(admin), account, NAMESPACE)
    path.write_text(yaml.safe_dump(plane.kubeconfig_for(token)))
    return path


def token_of(core: client.CoreV1Api, account: str, namespace: str) -> str:
    asked = client.AuthenticationV1TokenRequest(
        spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=LONGEST_RUN)
    )
    answer = core.create_namespaced_service_account_token(account, namespace, asked)
    return str(answer.status.token)
