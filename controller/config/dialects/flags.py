"""cluster-autoscaler's command line, as far as it has a counterpart here; the rest is told to be without effect.

Its flags are written `--name=value`, `--name value`, with one dash or two, with - or _ within, and a flag that is true
may stand alone. The value of a flag that nobody knows cannot be told from the next argument, so what does not begin with
a dash, and what is a number, belongs to the flag before it. Our own flags come here only where they are not written as
they are, or nearly so; without effect `--dry_run` would buy.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.config.errors import Problem, show_value
from controller.config.values import Path, attempt, parse_whole

PROVIDERS = ("datacrunch", "verdacloud")
_LOGS = ("v", "logtostderr", "alsologtostderr", "stderrthreshold", "log-file", "log-file-max-size", "log-dir",
         "logging-format", "vmodule", "skip-headers", "one-output", "add-dir-header")  # fmt: skip
# To which setting a flag goes, and what changes by that.
_SAME: dict[str, tuple[Path, str]] = {
    "scale-down-unneeded-time": (("scale_down", "cooldown"), ""),
    "scale-down-delay-after-add": (
        ("scale_down", "min_age"),
        "was a pause of all removals after a purchase; now no machine goes before it is that old",
    ),
    "max-pod-eviction-time": (("deadlines", "eviction_grace"), ""),
    "scan-interval": (("timing", "tick"), "changes are seen at once; this is the look without any"),
    "expendable-pods-priority-cutoff": (("planning", "priority_cutoff"), ""),
    "namespace": (("namespace",), ""),
    "leader-elect-lease-duration": (("lease", "duration"), ""),
    "leader-elect-renew-deadline": (("lease", "spend_within"), ""),
    "leader-elect-retry-period": (("lease", "renew"), ""),
}
_PROVISION = (
    "was the time until a node registers; now of each phase: until the machine runs, and until it joins"
)
_TOTAL = "counts every node of the cluster, as there"
_EXPANDERS = {"least-waste": "smallest", "price": "cheapest", "priority": "priority"}
# Without effect, and why: said once each.
_WITHOUT = {
    "skip-nodes-with-local-storage": "pods with an emptyDir leave by the eviction API like others",
    "skip-nodes-with-system-pods": "only pods that would be lost or find no place keep a machine",
    "skip-nodes-with-custom-controller-pods": "only pods that would be lost or find no place keep a machine",
    "scale-down-utilization-threshold": "only idle GPUs let a machine go (scale_down.consolidate moves work, if asked for)",
    "scale-down-gpu-utilization-threshold": "only idle GPUs let a machine go (scale_down.consolidate moves work, if asked for)",
    "scale-down-delay-after-delete": "removals do not wait for each other",
    "scale-down-delay-after-failure": "a failed removal is tried again by itself",
    "scale-down-unready-time": "deadlines.gpu_lost and disruption.budget decide about broken machines",
    "force-delete-unregistered-nodes": "machines that do not join are always replaced (deadlines.join)",
    "balance-similar-node-groups": "scale_up.spread_locations spreads equal offers over locations",
    "ignore-daemonsets-utilization": "DaemonSets never keep a machine",
    "max-empty-bulk-delete": "disruption.budget says how many go at once",
    "max-scale-down-parallelism": "disruption.budget says how many go at once",
    "node-group-auto-discovery": "groups come from --nodes and the configuration",
    "enforce-node-group-min-size": "a pool's min is always filled",
    "gpu-total": "limits.gpus bounds all GPUs together",
    "max-graceful-termination-sec": "pods keep their own grace (deadlines.eviction_grace bounds the wait)",
    "cluster-name": "cluster_id marks what belongs to a cluster",
    "leader-elect-resource-name": "the Lease is called gpu-autoscaler",
    "leader-elect-resource-namespace": "the Lease is in the controller's namespace",
    "leader-elect-resource-lock": "it is always a Lease",
}
_FILLS_MIN = "enforce-node-group-min-size"
_ALONE = frozenset({_FILLS_MIN, "scale-down-enabled", "leader-elect", "balance-similar-node-groups", "logtostderr", "alsologtostderr",
                    "force-delete-unregistered-nodes", "scale-down-unready-enabled", "ignore-daemonsets-utilization"})  # fmt: skip


_OURS = ("dry-run", "once")  # what they forbid must not happen because of their spelling
_NUMBER = re.compile(r"-[0-9]+")


@dataclass
class Flags:
    """What a command line says, in our words."""

    provider: str = ""
    nodes: tuple[str, ...] = ()
    kubeconfig: str = ""
    cloud_config: str = ""
    listen: str = ""
    log_level: str = ""
    no_scale_down: bool = False
    fills_min: bool = False  # as everything here does
    settings: list[tuple[Path, Any, str, str]] = field(
        default_factory=list
    )  # path, value, flag, what changed
    warnings: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def given(self) -> bool:
        """Whether this is a command line of cluster-autoscaler at all."""
        return bool(self.provider or self.nodes)

    def wrong(self, name: str, value: str | None, expected: str) -> None:
        shown = show_value((name,), value) if value is not None else None
        self.problems.append(Problem(f"--{name}", shown, expected, "command line"))

    def without(self, name: str, why: str = "") -> None:
        self.warnings.append(f"command line: --{name}: has no effect here{': ' + why if why else ''}")


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Name and value of each flag; a word that belongs to none has the name ""."""
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            yield from (("", left) for left in waiting)
            return
        name, sign, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not name or word.lstrip("-") == "":
            yield "", word
            continue
        name = name.replace("_", "-")
        if sign:
            yield name, value
        elif (
            name not in _ALONE
            and waiting
            and (not waiting[0].startswith("-") or _NUMBER.fullmatch(waiting[0]))
        ):
            yield name, waiting.pop(0)
        else:
            yield name, None


def parse_flags(words: Sequence[str]) -> Flags:
    flags = Flags()
    nodes: list[str] = []
    for name, value in _pairs(words):
        text = (value or "").strip().strip("'\"")
        if not name:
            flags.wrong("", text, "no argument beside flags")
        elif name == "nodes":
            nodes.append(text)
        elif ours := next(
            (one for one in _OURS if one.replace("-", "") == name.replace("-", "").lower()), ""
        ):
            flags.wrong(name, value, f"--{ours}, written so and without a value")
        elif name in _TAKEN:
            _TAKEN[name](flags, name, text, value is None)
        elif name in _SAME:
            path, note = _SAME[name]
            _setting(flags, name, path, text, note)
        elif name in _WITHOUT:
            flags.without(name, _WITHOUT[name])
            flags.fills_min |= name == _FILLS_MIN and _flag(text, value is None) is True
        elif meant := _misspelt(name):
            flags.wrong(name, value, f"--{meant}, if that is meant")
        elif name not in _LOGS:
            flags.without(name)
    flags.nodes = tuple(nodes)
    return flags


def _misspelt(name: str) -> str:
    """A flag that has an effect here, of which this is nearly the name, or "".

    cluster-autoscaler ends at a flag that it does not know, so no command line that works has one; a limit or a pause
    would be lost in it.
    """
    form = name.replace("-", "").lower()
    # None of theirs is even remotely like ours, and what these forbid cannot be undone.
    for one in _OURS:
        if form.startswith(one.partition("-")[0]):  # --dry, --dry-run-mode
            return one
    for words, cutoff in ((_OURS, 0.8), ([known for known in KNOWN if len(known) > 3], 0.9)):
        by_form = {known.replace("-", ""): known for known in words}
        if close := difflib.get_close_matches(form, by_form, n=1, cutoff=cutoff):
            return by_form[close[0]]
    return ""


def _setting(flags: Flags, name: str, path: Path, value: Any, note: str = "") -> None:
    if value == "":
        flags.wrong(name, None, "a value")
    else:
        flags.settings.append((path, value, f"--{name}", note))


def _provider(flags: Flags, name: str, text: str, alone: bool) -> None:
    if text not in PROVIDERS:
        hint = "; for externalgrpc use verda-cloud-provider" if text == "externalgrpc" else ""
        flags.wrong(name, text, f"one of {', '.join(PROVIDERS)}{hint}")
    flags.provider = text


def _log_level(flags: Flags, name: str, text: str, alone: bool) -> None:
    if text.isascii() and text.isdigit() and int(text[:3]) >= 5:
        flags.log_level = "debug"


def _word(to: str) -> Callable[[Flags, str, str, bool], None]:
    def read(flags: Flags, name: str, text: str, alone: bool) -> None:
        if alone:  # without one another cluster than the one that was meant might be taken; `--name=` says so
            flags.wrong(name, None, "a value")
        setattr(flags, to, text)

    return read


def _provision(flags: Flags, name: str, text: str, alone: bool) -> None:
    _setting(flags, name, ("deadlines", "launch"), text, _PROVISION)
    _setting(flags, name, ("deadlines", "join"), text)


def _nodes_total(flags: Flags, name: str, text: str, alone: bool) -> None:
    if text == "0":
        return  # there it means no limit
    _setting(flags, name, ("limits", "machines"), text, _TOTAL)
    _setting(flags, name, ("limits", "cluster_wide"), True)


def _range(path: Path) -> Callable[[Flags, str, str, bool], None]:
    def read(flags: Flags, name: str, text: str, alone: bool) -> None:
        least, colon, most = text.partition(":")
        if not colon or attempt(parse_whole, least) is None or attempt(parse_whole, most) is None:
            flags.wrong(name, text, "<min>:<max> as whole numbers")
            return
        if int(least):
            flags.warnings.append(
                f"command line: --{name}: the minimum has no effect here (pools[].min keeps machines)"
            )
        _setting(flags, name, path, most, _TOTAL)
        _setting(flags, name, ("limits", "cluster_wide"), True)

    return read


def _expander(flags: Flags, name: str, text: str, alone: bool) -> None:
    wanted = [word.strip() for word in text.split(",") if word.strip()]
    for word in wanted:
        if word in _EXPANDERS:
            note = (
                "the order of the pools counts, the expander's ConfigMap is not read"
                if word == "priority"
                else ""
            )
            _setting(flags, name, ("scale_up", "strategy"), _EXPANDERS[word], note)
            return
    if not wanted or not set(wanted) <= {"random", "most-pods", "grpc", "least-nodes"}:
        flags.wrong(name, text, f"one of {', '.join(_EXPANDERS)}, random, most-pods, least-nodes, grpc")
    else:
        flags.without(name, f"nothing here is like {wanted[0]}; scale_up.strategy stays as it is")


def _flag(text: str, alone: bool) -> bool | None:
    if alone:
        return True
    return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(text.lower())


def _scale_down(flags: Flags, name: str, text: str, alone: bool) -> None:
    wanted = _flag(text, alone)
    if wanted is None:
        flags.wrong(name, text, "true or false")
    flags.no_scale_down = wanted is False


def _leader_elect(flags: Flags, name: str, text: str, alone: bool) -> None:
    wanted = _flag(text, alone)
    if wanted is None:
        flags.wrong(name, text, "true or false")
    elif not wanted:
        flags.without(name, "nothing is bought without holding the Lease")


_TAKEN: dict[str, Callable[[Flags, str, str, bool], None]] = {
    "cloud-provider": _provider,
    "cloud-config": _word("cloud_config"),
    "kubeconfig": _word("kubeconfig"),
    "address": _word("listen"),
    "v": _log_level,
    "max-node-provision-time": _provision,
    "max-nodes-total": _nodes_total,
    "cores-total": _range(("limits", "cores")),
    "memory-total": _range(("limits", "memory_gb")),
    "expander": _expander,
    "scale-down-enabled": _scale_down,
    "leader-elect": _leader_elect,
}
KNOWN = sorted({"nodes", *_TAKEN, *_SAME})  # those that have a counterpart here
