"""What a controller finds in the cluster when it comes for the first time: its namespace, and the secrets to join by."""

from __future__ import annotations

from controller.config.load import Loaded
from controller.domain.names import default_cluster_id
from controller.sandbox.simulator.worlds import Worlds


def founded(worlds: Worlds, loaded: Loaded) -> str:
    """The id of the cluster."""
    ask, namespace = worlds.ask_cluster, loaded.settings.namespace
    ask("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": namespace}})
    for entry in loaded.settings.join.values():
        if entry.token_from is not None and (secret := entry.token_from.secret) is not None:
            body = {
                "kind": "Secret",
                "metadata": {"name": secret.name},
                "stringData": {secret.key: "K10::server:not-a-real-token"},
            }
            ask("POST", f"/api/v1/namespaces/{namespace}/secrets", body)
    uid = str(ask("GET", "/api/v1/namespaces/kube-system").json()["metadata"]["uid"])
    return loaded.settings.cluster_id or default_cluster_id(uid, namespace)
