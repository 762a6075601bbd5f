"""The cloud's credentials as they are now: those that stand in files are read again when the files change.

Kubernetes changes a mounted Secret by swapping a symbolic link, with a delay of up to a minute; so a look at
the file behind the link, at each use, is what tells. A file that cannot be read for a moment, or holds
nonsense, leaves what was known before: the old credentials may well be good.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping

from controller.config.reading import is_read_once
from controller.config.settings import Verda
from controller.config.sources import read_credential
from controller.config.urls import parse_url

log = logging.getLogger("gpu_autoscaler")

Mark = tuple[int, int, int, int]
KEYS = ("client_id", "client_secret", "base_url")


def files_of(origins: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Which of the credentials that won stand in files, by key."""
    found = {}
    for key in KEYS:
        variable = origins.get(f"verda.{key}", "")
        if variable.endswith("_FILE") and environ.get(variable, "").strip():
            found[key] = environ[variable].strip()
    return found


class LiveCredentials:
    """Client id, secret and base URL. Used from several threads: the worst that a race costs is one reading."""

    def __init__(
        self, verda: Verda, files: Mapping[str, str], changed: Callable[[str], None] = lambda _: None
    ) -> None:
        """`changed` hears every new value before it is used."""
        secret = verda.client_secret.get_secret_value() if verda.client_secret is not None else ""
        self._known = {
            "client_id": verda.client_id or "",
            "client_secret": secret,
            "base_url": verda.base_url,
        }
        self._files = dict(files)
        self._changed = changed
        self._marks: dict[str, Mark | None] = {}  # none yet: they may have changed since they were loaded
        self._troubles: dict[str, str] = {}

    def replace(self, verda: Verda, files: Mapping[str, str]) -> None:
        """The settings themselves hold others now. What stands in files is read from there, as before."""
        secret = verda.client_secret.get_secret_value() if verda.client_secret is not None else ""
        given = {"client_id": verda.client_id or "", "client_secret": secret}
        self._files = dict(files)
        for key, value in given.items():
            if value and value != self._known[key] and key not in files:
                self._changed(value)
                self._known[key] = value

    def current(self) -> tuple[str, str, str]:
        for _ in range(2):  # swapped between two readings: the halves of two Secrets fit no lock
            if not self._read_what_changed():
                break
        return self._known["client_id"], self._known["client_secret"], self._known["base_url"]

    def _read_what_changed(self) -> bool:
        changed = False
        for key, path in self._files.items():
            if is_read_once(path):
                continue  # it was read when the settings were
            mark = _mark(path)
            if key in self._marks and mark == self._marks[key] and key not in self._troubles:
                continue
            value, trouble = read_credential(path)
            if not trouble and key == "base_url":
                value, trouble = _url(value)
            self._tell(key, path, trouble)
            if trouble:
                continue
            self._marks[key] = mark
            if value.strip() != self._known[key]:
                self._changed(value.strip())
                self._known[key] = value.strip()
                changed = True
        return changed

    def _tell(self, key: str, path: str, trouble: str) -> None:
        if trouble == self._troubles.get(key, ""):
            return
        if trouble:
            self._troubles[key] = trouble
            log.warning(f"{path}: verda.{key}: expected {trouble}; the last value goes on being used")
        else:
            del self._troubles[key]
            log.info("recovered", extra={"from": f"{path}: verda.{key} could not be read"})


def _mark(path: str) -> Mark | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _url(value: str) -> tuple[str, str]:
    try:
        return parse_url(value.strip()), ""
    except ValueError:
        return "", "a URL that begins with https:// or http://"
