"""Which labels, taints and resources a machine may be given.

Whatever would cost a machine that never joins, such as a label on which its kubelet exits, is refused
here, before anything is bought.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from controller.config.values import Path, parse_text, several, wrong
from controller.domain import names
from controller.domain.quantity import QuantityError, parse_quantity

_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
# Facts about a machine that we or its kubelet state; a pool cannot state them otherwise.
FACTS = frozenset(
    {
        names.LABEL_HOSTNAME,
        names.LABEL_OS,
        names.LABEL_ARCH,
        names.LABEL_INSTANCE_TYPE,
        names.LABEL_ZONE,
        names.LABEL_REGION,
    }
)
_PLAIN_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")


def key_problem(key: str) -> str:
    """Why the text is no key of a label or taint, or ""."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _DOMAIN.fullmatch(prefix)):
        return "a key whose part before the / is a lower-case domain"
    if not _NAME.fullmatch(name):
        return "a key of 1 to 63 letters, digits, -, _ and ., with a letter or digit at both ends"
    return ""


def label_problem(key: str) -> str:
    """Why a pool may not have this label, or ""."""
    problem = key_problem(key)
    if problem:
        return problem
    if key.startswith(names.PREFIX):
        return f"a label without the prefix {names.PREFIX}, which is reserved for the autoscaler's own"
    return ""


def value_problem(value: str) -> str:
    if value and not _NAME.fullmatch(value):
        return "at most 63 letters, digits, -, _ and ., with a letter or digit at both ends"
    return ""


def _text_of(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def parse_labels(value: Any, judge: Callable[[str], str] = label_problem) -> dict[str, str]:
    """`judge`: what is wrong with a key, or ""."""
    if not isinstance(value, Mapping):
        raise wrong("a map of labels, such as {team: ml}")
    problems: list[tuple[Path, Any, str]] = []
    labels: dict[str, str] = {}
    for key, given in value.items():
        problem = judge(str(key))
        text = _text_of(given)
        if not problem and text is None:
            problem = "text; labels are texts, so write numbers, true, false, on and off in quotes"
        problem = problem or value_problem(text or "")
        if problem:
            problems.append(((str(key),), given, problem))
        else:
            labels[str(key)] = text or ""
    if problems:
        raise several(problems)
    return labels


def parse_taint_text(text: str) -> dict[str, str]:
    """`key[=value]:Effect`, as `kubectl taint` writes it."""
    left, colon, effect = text.rpartition(":")
    if not colon:
        raise wrong("a taint such as nvidia.com/gpu=present:NoSchedule")
    key, _, value = left.partition("=")
    return {"key": key, "value": value, "effect": effect}


def parse_taint_key(value: Any) -> str:
    key = parse_text(value)
    problem = key_problem(key)
    if key.startswith(names.PREFIX) or key == names.TAINT_STARTUP:
        problem = "another taint: this one is reserved for the autoscaler"
    if problem:
        raise wrong(problem)
    return key


def parse_taint_value(value: Any) -> str:
    if value == "":
        return ""
    text = parse_text(value)
    problem = value_problem(text)
    if problem:
        raise wrong(problem)
    return text


def _resource_problem(name: str, given: Any) -> str:
    prefix, slash, rest = name.rpartition("/")
    known = name in _PLAIN_RESOURCES or name.startswith("hugepages-")
    if not known and not (slash and _DOMAIN.fullmatch(prefix) and _NAME.fullmatch(rest)):
        return "cpu, memory, ephemeral-storage, pods, hugepages-… or a name with a domain, such as nvidia.com/gpu"
    if isinstance(given, bool) or not isinstance(given, int | float | str) or len(str(given)) > 40:
        return "a quantity such as 2, 500m or 1.5Gi"
    try:
        amount = parse_quantity(str(given))
    except QuantityError:
        return "a quantity such as 2, 500m or 1.5Gi"
    if not 0 <= amount < 2**63:
        return "a quantity of 0 or more that fits 64 bits"
    if (not known or name == "pods") and amount != amount.to_integral_value():
        return "a whole number: Kubernetes counts this resource in whole units"
    return ""


def parse_resources(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise wrong("a map of resources, such as {nvidia.com/mig-1g.10gb: 7}")
    found = [((str(name),), given, _resource_problem(str(name), given)) for name, given in value.items()]
    problems = [entry for entry in found if entry[2]]
    if problems:
        raise several(problems)
    return {path[0]: str(given) for path, given, _ in found}
