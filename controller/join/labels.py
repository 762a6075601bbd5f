"""Which labels of a machine's Node its kubelet may set itself.

NodeRestriction lets a kubelet set labels outside `kubernetes.io` and `k8s.io` freely and inside them
only those below; the kubelet checks `--node-labels` against the same list and *exits* on a bad key,
so one forbidden label is a machine that never joins. The others are added to the Node afterwards.
"""

from __future__ import annotations

_ALLOWED = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)
_OPEN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_CLOSED_DOMAINS = ("kubernetes.io", "k8s.io")


def kubelet_may_set(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    if not slash or not _within(domain, _CLOSED_DOMAINS):
        return True
    return key in _ALLOWED or _within(domain, _OPEN_DOMAINS)


def _within(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith("." + parent) for parent in parents)
