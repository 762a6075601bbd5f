"""The one way in: merge the sources, check everything, say what is wrong or dangerous.

`load` is for a running program, `load_dict` for the `settings` of a snapshot; both end in the same
checks. `show` is the reverse: what `config show` prints, without secrets, and `load_dict` reads it.
A configuration of a predecessor is translated first (`dialects`) and then treated like any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from controller.config import rules
from controller.config.causes import causes
from controller.config.dialects.choosing import AUTO, NATIVE, translate
from controller.config.dialects.draft import Draft
from controller.config.dialects.flags import Flags
from controller.config.dialects.groups import apply_groups
from controller.config.errors import (
    MASK,
    ConfigError,
    Places,
    Problem,
    from_validation,
    names_secret,
    show_value,
    unknown_key,
)
from controller.config.kubernetes_names import FACTS
from controller.config.paths import show_path
from controller.config.settings import Settings
from controller.config.sources import Tree, apply_credentials, apply_environment, apply_overrides, plain
from controller.config.values import Path

SERVICE_ACCOUNT_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

_QUERY = re.compile(r"(?s)\A(\w+://[^\s?#]*[?#]).+\Z")
# That a pool cannot join or says no type: where a translation failed, this follows from what is told already.
_FOLLOWS = re.compile(r"pools\[[0-9]+\](?:\.join)?")


@dataclass(frozen=True)
class Loaded:
    settings: Settings
    warnings: list[str] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)  # key -> file:line, variable, … for what was set
    # How a predecessor's configuration was understood.
    draft: Draft = field(default_factory=lambda: Draft(NATIVE), compare=False, repr=False)

    @property
    def dialect(self) -> str:
        return self.draft.dialect


def load(
    file: str | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
    text: str | None = None,
    *,
    service_account: str = SERVICE_ACCOUNT_NAMESPACE,
    dialect: str = AUTO,
    flags: Flags | None = None,
) -> Loaded:
    """Command line over environment over file over defaults; `text` is the file's, if it was read already.

    `flags` are those of a predecessor's command line. Groups of variables are added to what the others give.
    """
    flags = flags or Flags()
    draft = translate(file, text, environ, flags, dialect)
    tree = draft.tree
    problems, warnings = [*flags.problems, *draft.problems], [*draft.warnings, *flags.warnings]
    problems += apply_credentials(tree, {**environ, **draft.environ}, warnings)
    problems += apply_environment(tree, environ)
    problems += apply_groups(tree, environ, warnings)
    _apply_flags(tree, draft, flags)
    problems += apply_overrides(tree, overrides or {})
    if tree.get(("namespace",)) is None:
        found, where = _namespace(environ, service_account)
        if found:
            tree.put(("namespace",), found, where)
    return _loaded(tree, problems, warnings, join_required=True, draft=draft)


def _apply_flags(tree: Tree, draft: Draft, flags: Flags) -> None:
    for path, value, flag, note in flags.settings:
        tree.put(path, value, "command line")
        draft.spelled[show_path(path)] = flag
        if note:
            draft.notes[path] = note
    kept = ("scale_down", "removed_pools")
    if flags.no_scale_down and tree.get(kept) is None:
        draft.put(kept, "keep", "command line", "--scale-down-enabled")
    for kind in ("pools", "machines") if flags.no_scale_down else ():
        entries = tree.get((kind,))
        for n in range(len(entries) if isinstance(entries, list) else 0):
            both = tree.get((kind, n, "pause")) in ("scale-up", "all")
            pause = "all" if both else "scale-down"
            draft.put((kind, n, "pause"), pause, "command line", "--scale-down-enabled")


def load_dict(data: Mapping[str, Any]) -> Loaded:
    """The `settings` of a snapshot: the same checks, except that its pools need no way to join."""
    made: dict[str, Any] = plain(data)
    return _loaded(Tree(made, Places("snapshot")), [], [], join_required=False)


def show(settings: Settings) -> dict[str, Any]:
    """Every setting as people write it: durations as `10m`, secrets as `***`, and so whatever may hold one.

    That is what follows the `?` or `#` of a URL, a header whose name says so, and a body that names one.
    """
    shown: dict[str, Any] = _without_queries(settings.model_dump(mode="json"))
    for entry in shown["webhooks"].values():
        entry["headers"] = {
            name: MASK if names_secret(name) else value for name, value in entry["headers"].items()
        }
        entry["body"] = MASK if names_secret(entry["body"]) else entry["body"]
    return shown


def _without_queries(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_queries(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_queries(inner) for inner in value]
    return _QUERY.sub(r"\1***", value) if isinstance(value, str) else value


def _namespace(environ: Mapping[str, str], service_account: str) -> tuple[str, str]:
    if environ.get("POD_NAMESPACE", "").strip():
        return environ["POD_NAMESPACE"].strip(), "POD_NAMESPACE"
    try:
        return FilePath(service_account).read_text(encoding="utf-8").strip(), "service account"
    except (OSError, UnicodeDecodeError):
        return "", ""


def _loaded(
    tree: Tree,
    problems: list[Problem],
    warnings: list[str],
    join_required: bool,
    draft: Draft | None = None,
) -> Loaded:
    draft = draft or Draft(NATIVE)
    rules.fill_in_join(tree)
    rules.fill_in_webhook(tree)
    # Checked here and not by the model, because a key such as `_env_file` means something to its constructor.
    unknown = [key for key in tree.data if key not in Settings.model_fields]
    problems += [unknown_key((key,), Settings, tree.places) for key in unknown]
    problems += rules.check(tree, join_required)
    settings = None
    try:
        settings = Settings(**{key: value for key, value in tree.data.items() if key not in unknown})
    except ValidationError as error:
        problems += from_validation(error, Settings, tree.places)
    if draft.problems and draft.dialect != NATIVE:
        problems = [one for one in problems if not _FOLLOWS.fullmatch(one.key)]
    if problems or settings is None:
        raise ConfigError(sorted(dict.fromkeys(map(draft.theirs, causes(problems))), key=_in_order))
    origins = {show_path(path): where for path, where in tree.places.where.items() if path}
    warnings = list(dict.fromkeys(warnings + _warnings(settings, tree.places)))
    return Loaded(settings, warnings, origins, draft)


def _in_order(problem: Problem) -> tuple[str, int]:
    """File by file, top to bottom."""
    place, _, line = problem.where.rpartition(":")
    return (place, int(line)) if line.isascii() and line.isdigit() else (problem.where, 0)


def _warnings(settings: Settings, places: Places) -> list[str]:
    found: list[str] = []
    for n, pool in enumerate(settings.pools):
        for label in sorted(FACTS & set(pool.labels)):
            where: Path = ("pools", n, "labels", label)
            found.append(
                f"{places.of(where)}: {show_path(where)} = {pool.labels[label]}: is set from the machine's own facts instead"
            )
    url = urlsplit(settings.verda.base_url)
    if url.scheme == "http" and url.hostname not in ("localhost", "127.0.0.1", "::1"):
        where = ("verda", "base_url")
        shown_url = show_value(where, settings.verda.base_url)
        found.append(f"{places.of(where)}: verda.base_url = {shown_url}: http sends the credentials in clear")
    for n, machine in enumerate(settings.machines):
        auth = settings.webhooks[machine.webhook].auth if machine.webhook else None
        if auth is None or not (auth.bearer or auth.basic or auth.header):
            continue
        for key in ("scale_up_endpoint", "scale_down_endpoint", "status_endpoint"):
            endpoint = urlsplit(getattr(machine, key) or "")
            if endpoint.scheme == "http" and endpoint.hostname not in ("localhost", "127.0.0.1", "::1"):
                where = ("machines", n, key)
                shown_url = show_value(where, getattr(machine, key))
                found.append(
                    f"{places.of(where)}: {show_path(where)} = {shown_url}: http sends the credentials in clear"
                )
                break
    if (settings.verda.client_id is None) != (settings.verda.client_secret is None):
        there, absent = ("client_id", "client_secret")[:: 1 if settings.verda.client_id else -1]
        found.append(f"{places.of(('verda', there))}: verda.{there} is set, verda.{absent} is not")
    return found
