"""What pods demand of labels, taints and other pods: every operator, effect, policy and key, drawn at random."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.differential.chance import Chance
from tests.e2e.controlplane.differential.worlds import NAMESPACES, Json

HOST, ZONE, REGION = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
NODE_LABELS = {
    "disk": ["ssd", "hdd", ""],
    "gen": ["1", "3", "5", "9", "007", "1_0", "9223372036854775808", "abc"],
    "nvidia.com/gpu.product": ["NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"],
    "gpu-autoscaler/gpu": ["a100-80gb", "h100"],
}
ZONES = {"za": "r1", "zb": "r1", "zc": "r2"}
POD_LABELS = {"app": ["x", "y", "z"], "tier": ["1", "2"], "rev": ["v1", "v2"]}
TAINTS = {"team": ["ml", "web", ""], "gpu": ["present"], "weight": ["1", "5", "1_0", "007", "x"]}
EFFECTS = ["NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute"]
KEYS = [HOST, ZONE, ZONE, REGION, "disk", "nowhere"]
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def taints(chance: Chance) -> list[Json]:
    found = {}
    for _ in range(chance.choice([0, 0, 0, 1, 1, 2])):
        key, effect = chance.choice(sorted(TAINTS)), chance.choice(EFFECTS)
        value = chance.choice(TAINTS[key])
        found[(key, effect)] = {"key": key, "effect": effect} | ({"value": value} if value else {})
    return list(found.values())


def tolerations(chance: Chance) -> list[Json]:
    found: list[Json] = []
    for _ in range(chance.randint(1, 3)):
        one: Json = {"operator": chance.choice(["Equal", "Equal", "Exists", "Exists", "Gt", "Lt"])}
        if one["operator"] != "Exists" or chance.of(0.8):
            one["key"] = chance.choice([*sorted(TAINTS), "node.kubernetes.io/unschedulable"])
        if one["operator"] == "Equal":
            one["value"] = chance.choice(["ml", "web", "present", "5", ""])
        elif one["operator"] in ("Gt", "Lt"):
            one |= {"key": "weight", "value": chance.choice(["0", "3", "5"])}
        if one["operator"] == "Equal" and chance.of(0.2):
            del one["operator"]  # which is the default
        if effect := chance.choice(["", "", "NoSchedule", "NoExecute", "PreferNoSchedule"]):
            one["effect"] = effect
        found.append(one)
    return found


def node_term(chance: Chance, hosts: list[str]) -> Json:
    term: Json = {}
    if chance.of(0.85):
        term["matchExpressions"] = [node_expression(chance, hosts) for _ in range(chance.randint(1, 2))]
    if chance.of(0.15):
        operator = chance.choice(["In", "NotIn"])
        name = chance.choice([*hosts, "no-such-node"])
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
    return term  # at times an empty one, which selects nothing


def node_expression(chance: Chance, hosts: list[str]) -> Json:
    known = NODE_LABELS | {ZONE: sorted(ZONES), HOST: hosts, "unknown": ["1"]}
    operator = chance.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    key = "gen" if operator in ("Gt", "Lt") and chance.of(0.8) else chance.choice(sorted(known))
    one: Json = {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        one["values"] = [chance.choice(["0", "3", "4", "7", "1000"])]
    elif operator in ("In", "NotIn"):
        one["values"] = chance.some(known[key], 3)
    return one


def node_affinity(chance: Chance, hosts: list[str]) -> Json:
    found: Json = {}
    if chance.of(0.8):
        terms = [node_term(chance, hosts) for _ in range(chance.randint(1, 3))]
        found[REQUIRED] = {"nodeSelectorTerms": terms}
    if chance.of(0.35) or not found:
        term = {"matchExpressions": [node_expression(chance, hosts)]}
        found[PREFERRED] = [{"weight": chance.randint(1, 100), "preference": term}]
    return found


def selector(chance: Chance, known: dict[str, list[str]] | None = None) -> Json:
    """A label selector, at times the empty one that selects everything."""
    known = known or POD_LABELS
    found: Json = {}
    if chance.of(0.7):
        found["matchLabels"] = chance.labels(known, 0.5) or {"app": "x"}
    if chance.of(0.3):
        key = chance.choice(sorted(known))
        operator = chance.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        one: Json = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            one["values"] = chance.some(known[key], 2)
        found["matchExpressions"] = [one]
    return found


def pod_term(chance: Chance, own: dict[str, str]) -> Json:
    """Of affinity or anti-affinity; often about the pod's own kind."""
    term: Json = {"topologyKey": chance.choice(KEYS)}
    if chance.of(0.95):
        alike = own and chance.of(0.4)
        term["labelSelector"] = (
            {"matchLabels": dict(chance.some(sorted(own.items()), 2))} if alike else selector(chance)
        )
    if chance.of(0.25):
        term["namespaces"] = chance.some([*sorted(NAMESPACES), "no-such-namespace"], 2)
    if chance.of(0.25):
        spaces = {"team": ["red", "blue"], "env": ["prod"]}
        chosen = {} if chance.of(0.3) else selector(chance, spaces)
        if chosen and "matchLabels" not in chosen:
            chosen["matchLabels"] = {"env": "prod"}  # left_out tells why
        term["namespaceSelector"] = chosen
    if "labelSelector" in term and chance.of(0.2):
        kind = chance.choice(["matchLabelKeys", "mismatchLabelKeys"])
        term[kind] = _free_keys(chance, term["labelSelector"])
    return {key: value for key, value in term.items() if value != []}


def _free_keys(chance: Chance, said: Json) -> list[str]:
    """Keys that the selector says nothing about: others the API server refuses."""
    taken = set(said.get("matchLabels", {})) | {each["key"] for each in said.get("matchExpressions", [])}
    return chance.some([key for key in sorted(POD_LABELS) if key not in taken], 1)


def pod_affinity(chance: Chance, own: dict[str, str]) -> Json:
    found: Json = {}
    if chance.of(0.75):
        found[REQUIRED] = [pod_term(chance, own) for _ in range(chance.choice([1, 1, 1, 2]))]
    if chance.of(0.25) or not found:
        found[PREFERRED] = [{"weight": chance.randint(1, 100), "podAffinityTerm": pod_term(chance, own)}]
    return found


def spread(chance: Chance, own: dict[str, str]) -> Json:
    found: Json = {
        "maxSkew": chance.choice([1, 1, 2, 3]),
        "topologyKey": chance.choice(KEYS),
        "whenUnsatisfiable": chance.choice(
            ["DoNotSchedule", "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]
        ),
    }
    if chance.of(0.95):
        alike = own and chance.of(0.6)
        found["labelSelector"] = (
            {"matchLabels": dict(chance.some(sorted(own.items()), 1))} if alike else selector(chance)
        )
    if found["whenUnsatisfiable"] == "DoNotSchedule" and chance.of(0.3):
        found["minDomains"] = chance.randint(1, 4)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if chance.of(0.35):
            found[policy] = chance.choice(["Honor", "Ignore"])
    if "labelSelector" in found and chance.of(0.25) and (keys := _free_keys(chance, found["labelSelector"])):
        found["matchLabelKeys"] = keys
    return found


def spreads(chance: Chance, own: dict[str, str]) -> list[Json]:
    every = [spread(chance, own) for _ in range(chance.choice([1, 1, 2]))]
    one_each = {(each["topologyKey"], each["whenUnsatisfiable"]): each for each in every}
    return list(one_each.values())


def affinity(chance: Chance, hosts: list[str], own: dict[str, str], share: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if chance.of(share):
        found["nodeAffinity"] = node_affinity(chance, hosts)
    if chance.of(share * 0.7):
        found["podAffinity"] = pod_affinity(chance, own)
    if chance.of(share * 0.8):
        found["podAntiAffinity"] = pod_affinity(chance, own)
    return found
