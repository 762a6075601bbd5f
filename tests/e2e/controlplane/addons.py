"""The kinds of add-ons that the controller looks at, as definitions without a controller behind them.

A real API server has none of these until somebody installs them. The native PodGroup is no add-on: the API
server is started with it. The Workloads that are read are those of Kubernetes 1.35. Later ones serve PodGroups in
their place, and definitions are not served in a group that the API server has itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from controller.cluster.groups import NATIVE, SYSTEMS
from controller.cluster.kinds import POD_GROUPS

VERSIONS = {kind.group: kind.api.rpartition("/")[2] for kind in POD_GROUPS if SYSTEMS[kind.group] != NATIVE}


def definition(group: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"podgroups.{group}",
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"},
            "versions": [
                {
                    "name": VERSIONS[group],
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


@contextlib.contextmanager
def gangs(admin: client.ApiClient) -> Iterator[None]:
    """The PodGroups of all add-ons, served for as long as this lasts."""
    api = client.ApiextensionsV1Api(admin)
    names = [f"podgroups.{group}" for group in VERSIONS]
    try:
        for group in VERSIONS:
            api.create_custom_resource_definition(definition(group))
        _until(lambda: all(_listed(admin, group) for group in VERSIONS))
        yield
    finally:
        for name in names:
            with contextlib.suppress(ApiException):
                api.delete_custom_resource_definition(name)
        _until(lambda: not any(_listed(admin, group) for group in VERSIONS))


def _listed(admin: client.ApiClient, group: str) -> bool:
    try:
        client.CustomObjectsApi(admin).list_cluster_custom_object(group, VERSIONS[group], "podgroups")
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
