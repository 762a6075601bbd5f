"""What `kubeadm init` leaves in a cluster so that machines may join: a token, and who may ask for certificates."""

from __future__ import annotations

import secrets

from kubernetes import client

_GROUP = "system:bootstrappers:kubeadm:default-node-token"
_ROLES = ("system:node-bootstrapper", "system:certificates.k8s.io:certificatesigningrequests:nodeclient")


def token_for_machines(admin: client.ApiClient) -> str:
    rbac = client.RbacAuthorizationV1Api(admin)
    for role in _ROLES:
        rbac.create_cluster_role_binding(
            {
                "metadata": {"generateName": "kubeadm-"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": _GROUP}],
            }
        )
    name, secret = secrets.token_hex(3), secrets.token_hex(8)
    client.CoreV1Api(admin).create_namespaced_secret(
        "kube-system",
        {
            "metadata": {"name": f"bootstrap-token-{name}"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": name,
                "token-secret": secret,
                "usage-bootstrap-authentication": "true",
                "auth-extra-groups": _GROUP,
            },
        },
    )
    return f"{name}.{secret}"
