"""The kinds of add-ons that the controller looks at, as definitions without a controller behind them.

A real API server has none of these until somebody installs them. The native PodGroup is no add-on: the API
server is started with it. Workloads are what 1.35 had in its place; later servers leave their version to whoever wants it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from controller.cluster.groups import NATIVE, SYSTEMS
from controller.cluster.kinds import POD_GROUPS, WORKLOADS, Kind

KINDS = [*(kind for kind in POD_GROUPS if SYSTEMS[kind.group] != NATIVE), WORKLOADS]
NAMES = {"podgroups": "PodGroup", "workloads": "Workload"}
# Groups of Kubernetes itself are kept for what was agreed on.
AGREED = {"api-approved.kubernetes.io": "unapproved, for tests"}


def definition(kind: Kind[Any]) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    name = NAMES[kind.plural]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource, "annotations": AGREED},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "singular": name.lower(), "kind": name},
            "versions": [
                {
                    "name": kind.api.rpartition("/")[2],
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


@contextlib.contextmanager
def gangs(admin: client.ApiClient) -> Iterator[None]:
    """The gangs of all add-ons, served for as long as this lasts."""
    api = client.ApiextensionsV1Api(admin)
    try:
        for kind in KINDS:
            api.create_custom_resource_definition(definition(kind))
        _until(lambda: all(_listed(admin, kind) for kind in KINDS))
        yield
    finally:
        for kind in KINDS:
            with contextlib.suppress(ApiException):
                api.delete_custom_resource_definition(kind.resource)
        _until(lambda: not any(_listed(admin, kind) for kind in KINDS))


def _listed(admin: client.ApiClient, kind: Kind[Any]) -> bool:
    group, _, version = kind.api.rpartition("/")
    try:
        client.CustomObjectsApi(admin).list_cluster_custom_object(group, version, kind.plural)
    except ApiException as error:
        if error.status == 404:
            return False
        raise
    return True


def _until(holds: Any) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, "definitions are not served, or not gone, within 30 s"
        time.sleep(0.1)
