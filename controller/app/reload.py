"""Settings that change while the program runs: read again when a file changed, and taken whole or not at all.

Kubernetes swaps the files of a ConfigMap or Secret by a symbolic link, so what counts is what stands behind the name. A
new configuration that is wrong in one word changes nothing: the old one stays in force, and an event, a metric and
the status say why. It is read again at every look, silently, because what it lacks may stand elsewhere: a file that
it names, a Secret, a right. Some settings say whose machines these are, or how the cloud is reached; they stay as
they were until the next start, and a configuration that has others is refused like a wrong one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from controller.app.exits import Ends
from controller.app.parts import join_entries, renew, secrets_of
from controller.app.program import Program
from controller.app.start import NOTHING_TO_DO
from controller.app.switches import make_endpoints, secrets_of_switches
from controller.cloud.none import NoCloud
from controller.cluster.protocol import ClusterError, Subject
from controller.config.catalogue_check import check_against
from controller.config.credentials import files_of as credential_files
from controller.config.load import Loaded
from controller.config.policy import to_policy
from controller.config.reading import is_read_once
from controller.config.settings import Settings
from controller.domain import names

log = logging.getLogger("gpu_autoscaler")

APPLIED, REFUSED, SAME = "applied", "refused", "same"
RELOADED, RELOAD_REFUSED = "SettingsChanged", "SettingsRefused"
NO_CLOUD = "pools: expected none while the program runs, because it was started without an account; restart it to buy"
OTHER_PORT = (
    "externalgrpc: expected what it was at the start while the program runs; restart it to change that (certificates "
    "are read again by themselves)"
)
READ_ONCE = "read once"
_LARGEST = 4_000_000
_PROBLEM = "settings"
_KEPT = ("base_url", "currency", "connect_timeout", "read_timeout")


class Reload:
    def __init__(
        self,
        program: Program,
        again: Callable[[], Loaded],
        *,
        sleep: Callable[[float], Awaitable[None]],
        seen: Mapping[str, str] | None = None,
    ) -> None:
        """`again` reads the configuration as at the start; what is wrong with it is raised as Ends.

        `seen`: what stood in its files when it was read; since then a start may have waited for its cluster.
        """
        self._program = program
        self._again = again
        self._sleep = sleep
        self._files = files_of(program.loaded)
        self._mark = dict(seen) if seen is not None else mark(self._files)
        self._refused = ""  # what is wrong with the settings that stand there now; "": they are in force
        program.metrics.settings_valid.set(1)

    async def run(self) -> None:
        """Look for changes until cancelled."""
        while True:
            await self._sleep(self._program.loaded.settings.timing.reload.total_seconds())
            try:
                await self.look()
            except Exception:  # nobody else would ever look again
                log.exception("unexpected error while looking for other settings")

    async def look(self) -> str:
        """Read what changed; whether it was applied or refused."""
        now = await asyncio.to_thread(mark, self._files)
        changed, self._mark = now != self._mark, now
        if not (changed or self._refused) or READ_ONCE in now.values():
            return SAME
        try:
            loaded = await asyncio.to_thread(self._again)
            await self._take(loaded)
        except Ends as end:
            return self._refuse("; ".join(end.lines), changed)
        except ClusterError as error:
            return self._refuse(f"the cluster cannot be asked about them: {error.message}", changed)
        except Exception as error:
            if changed or not self._refused:
                log.exception("unexpected error while reading the settings again")
            return self._refuse(f"they cannot be taken up ({type(error).__name__}; see the log)", changed)
        self._refused = ""
        self._files = files_of(loaded)
        if set(self._files) != set(now):
            self._mark = await asyncio.to_thread(mark, self._files) | {
                file: state for file, state in now.items() if file in self._files
            }
        return APPLIED

    async def _take(self, loaded: Loaded) -> None:
        program, settings = self._program, loaded.settings
        before = program.loaded.settings
        if problems := lost(program.loaded, loaded):
            raise Ends(2, *problems)
        if problems := unchangeable(before, settings, program.policy.cluster_id):
            raise Ends(2, *problems)
        if not (settings.pools or settings.machines):
            raise Ends(2, NOTHING_TO_DO)
        if settings.pools and isinstance(program.cloud, NoCloud):
            raise Ends(2, NO_CLOUD)
        policy = to_policy(settings, cluster_id=program.policy.cluster_id)
        if program.driver is not None:
            if settings.externalgrpc != before.externalgrpc:
                raise Ends(2, OTHER_PORT)
            if objections := program.driver.objections(policy):
                raise Ends(2, *objections)
        secrets = {*secrets_of(settings), *secrets_of_switches(settings)}
        known = {*secrets_of(before), *secrets_of_switches(before)}
        if secrets - known:
            missing = await program.connection.missing_rights(settings.namespace, tuple(sorted(secrets)))
            if missing:
                raise Ends(2, f"rights are missing: {'; '.join(missing)}")
        entries = await join_entries(settings, program.connection, policy.namespace)
        switches = (before.machines, before.webhooks) != (settings.machines, settings.webhooks)
        endpoints = (
            make_endpoints(settings, program.writer.read_secret, program.now.wall) if switches else None
        )
        for warning in loaded.warnings:
            if warning not in program.loaded.warnings:
                log.warning(warning)
        for problem in check_against(policy, program.fleet.catalogue, loaded.origins):
            log.warning(str(loaded.draft.theirs(problem)))
        gone = sorted({pool.name for pool in program.policy.pools} - {pool.name for pool in policy.pools})
        renew(program.cloud, settings, credential_files(loaded.origins, os.environ))
        program.change(loaded, policy, entries, endpoints)
        words = "the settings were changed and are in force"
        if gone:
            verb = "are drained" if policy.removed_pools == "drain" else "are kept"
            words += (
                f"; pools {', '.join(gone)} are no more, their machines {verb} (scale_down.removed_pools)"
            )
        log.info(words)
        self._tell("Normal", RELOADED, words, APPLIED)

    def _refuse(self, why: str, changed: bool) -> str:
        """Told once for each change, and again where there is something new to tell of the same."""
        if why == self._refused and not changed:
            return SAME
        self._refused = why
        words = f"the new settings are refused as a whole, and the old ones stay in force: {why}"
        self._program.loop.problem(_PROBLEM, words)
        self._tell("Warning", RELOAD_REFUSED, words, REFUSED)
        return REFUSED

    def _tell(self, kind: str, reason: str, words: str, result: str) -> None:
        program = self._program
        program.metrics.settings_changes.labels(result).inc()
        program.metrics.settings_valid.set(1 if result == APPLIED else 0)
        if result == APPLIED:
            program.loop.problem(_PROBLEM, None)
        program.reporter.about(
            Subject(
                kind="ConfigMap", name=names.STATUS_CONFIGMAP, namespace=program.policy.namespace, uid=""
            ),
            kind,
            reason,
            words,
        )


def unchangeable(before: Settings, after: Settings, cluster_id: str) -> list[str]:
    """What cannot change while the program runs, a line each."""
    found = []
    if (after.cluster_id or cluster_id) != cluster_id:
        found.append(
            f"cluster_id = {after.cluster_id}: expected {cluster_id} while the program runs, because its machines "
            "are marked with it; restart it to change that"
        )
    if after.namespace != before.namespace:
        found.append(
            f"namespace = {after.namespace}: expected {before.namespace} while the program runs, because its ledger is "
            "there; restart it to change that"
        )
    for key in _KEPT:
        if getattr(after.verda, key) != getattr(before.verda, key):
            found.append(
                f"verda.{key}: expected the value of the start while the program runs; restart it to change that"
            )
    return found


def lost(before: Loaded, after: Loaded) -> list[str]:
    """A file that was cut short where only its writer stopped, or one of another project in its place.

    Groups of variables may make settings of what is left, and the pools that stood in it would be drained.
    """
    if after.draft.empty and not before.draft.empty:
        return [
            f"{after.draft.empty}: expected settings, because it had some before and is empty now; without any it is "
            "taken when the program starts, or with an empty list (pools: [])"
        ]
    if after.dialect != before.dialect:
        return [
            f"the configuration is one of {after.dialect} now: expected one of {before.dialect} while the program runs; "
            "restart it to change that"
        ]
    return []


def files_of(loaded: Loaded) -> tuple[str, ...]:
    return tuple(dict.fromkeys(loaded.draft.files))


def mark(files: Iterable[str]) -> dict[str, str]:
    """What stands in each file now; one that cannot be read is another state, and no error here."""
    found = {}
    for file in files:
        if is_read_once(file):
            found[file] = READ_ONCE
            continue
        try:
            with Path(file).open("rb") as stream:
                found[file] = hashlib.sha256(stream.read(_LARGEST + 1)).hexdigest()
        except OSError as error:
            found[file] = f"unreadable: {error.errno}"
    return found
