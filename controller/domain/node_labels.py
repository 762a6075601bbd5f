"""Which labels a kubelet may set on its own Node.

NodeRestriction lets it set any label outside `kubernetes.io` and `k8s.io`, and inside them only those
below. The kubelet checks `--node-labels` against the same list and *exits* on another key: one forbidden
label is a machine that never joins, and only its log tells why. So settings are refused, scripts are
made and the sandbox's kubelets join by this one list.
"""

from __future__ import annotations

from controller.domain import names

# Where a cloud controller runs it writes the type under this older name too; elsewhere nobody does.
OLD_INSTANCE_TYPE = "beta.kubernetes.io/instance-type"
# Also the labels that a kubelet corrects on a Node of its name that it finds; all others it leaves.
WELL_KNOWN = frozenset(
    {
        names.LABEL_HOSTNAME,
        names.LABEL_OS,
        names.LABEL_ARCH,
        names.LABEL_INSTANCE_TYPE,
        names.LABEL_ZONE,
        names.LABEL_REGION,
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        OLD_INSTANCE_TYPE,
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
    return key in WELL_KNOWN or _within(domain, _OPEN_DOMAINS)


def _within(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith("." + parent) for parent in parents)
