"""Who we are and where the API server is: kubeconfig, KUBECONFIG, in-cluster, and all of it renewed.

The library reads every form of kubeconfig (certificates, tokens, exec plugins, OIDC); what it leaves to
others is done here: service account tokens and `tokenFile`s are rotated on disk, certificates are
replaced in place, exec plugins' tokens end, and a kubeconfig without a user over https must not be a
TypeError. Its messages may quote a whole user entry, so they are cut before they can show a token.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from controller.cluster.kubelibrary import library
from controller.cluster.protocol import ClusterError

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
LOOK_AGAIN = 60.0  # seconds until files are looked at again; the kubelet rotates tokens well ahead
LOOK_PATIENCE = 2.0  # seconds for which a request waits for newer ones while those that are known still do
EXPIRY_MARGIN = 300.0
PROVIDER_LOOK = 240.0  # an OIDC provider may refuse to be asked every minute
PLUGIN_LOOK = 3600.0  # a plugin that tells no end is asked again only then, or after a 401
PLUGIN_TIMEOUT = 60.0
log = logging.getLogger(__name__)


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Where to go and what to show. Two that differ only in the token share their connections."""

    host: str
    authorization: str = ""
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    server_name: str | None = None
    proxy: str | None = None
    stamps: tuple[tuple[str, int], ...] = ()  # of the certificate files: the same path, replaced

    @property
    def transport(self) -> Access:
        return msgspec.structs.replace(self, authorization="")

    def __repr__(self) -> str:
        return f"Access({self.host})"  # never the token


class Credentials:
    """`current` is what to use now; `reload` is for an answer of 401."""

    def __init__(
        self,
        *,
        kubeconfig: str = "",
        context: str | None = None,
        environ: Mapping[str, str] = os.environ,
        service_account: str = SERVICE_ACCOUNT,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._paths, self._inside = _source(kubeconfig, environ, service_account)
        self._context = context
        self._environ = environ
        self._service_account = service_account
        self._clock = clock
        self._wall = wall
        self._access: Access | None = None
        self._next_look = 0.0
        self._lock = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None

    @property
    def source(self) -> str:
        return "the pod's service account" if self._inside else f"kubeconfig {self._paths}"

    async def current(self) -> Access:
        if self._access is None:
            async with self._lock:
                if self._access is None:
                    await self._load()
        elif self._clock() >= self._next_look and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look_again(), name="credentials")
            # A plugin may hang for a minute: whoever must renew a lease cannot wait for it.
            await asyncio.wait({self._looking}, timeout=LOOK_PATIENCE)
        assert self._access is not None  # noqa: S101  (for the type checker)
        return self._access

    async def reload(self, refused: Access) -> Access:
        """New credentials instead of those that were refused, read at most once for all who ask."""
        async with self._lock:
            if self._access is None or self._access is refused:
                await self._load()
        assert self._access is not None  # noqa: S101
        return self._access

    async def _look_again(self) -> None:
        try:
            async with self._lock:
                if self._clock() >= self._next_look:
                    await self._load()
        except ClusterError as error:  # a file in the middle of its replacement; what we have may still do
            self._next_look = self._clock() + LOOK_AGAIN / 6
            log.warning("%s", error.message)

    async def _load(self) -> None:
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT):  # `wait_for` loses a cancellation before Python 3.12
                wait = await self._read()
        except TimeoutError:
            raise self._broken(f"its exec plugin did not answer within {PLUGIN_TIMEOUT:g} s") from None
        except ClusterError:
            raise
        except Exception as error:  # noqa: BLE001  (the library raises KeyError, AssertionError, TypeError…)
            raise self._broken(_told(error)) from None
        self._next_look = self._clock() + wait

    def _broken(self, why: str) -> ClusterError:
        return ClusterError(
            "unauthorised", f"cannot use {self.source}: {why}; correct it or name another with --kubeconfig"
        )

    async def _read(self) -> float:
        """Read everything anew; the seconds until it is worth a next look."""
        known = library()
        configuration = known.Configuration()
        wait = LOOK_AGAIN
        if self._inside:
            known.InClusterConfigLoader(
                f"{self._service_account}/token",
                f"{self._service_account}/ca.crt",
                try_refresh_token=False,
                environ=dict(self._environ),
            ).load_and_set(configuration)
        else:
            paths = self._readable()
            merged = known.KubeConfigMerger(os.pathsep.join(paths)).config
            loader = known.KubeConfigLoader(merged, self._context, config_base_path=None)
            if getattr(loader, "_user", "") is None:
                loader._user = type(merged)("user", {}, merged.path)  # the library takes None for a mapping
            await loader.load_and_set(configuration)
            wait = self._wait(loader)
            if "exec" in loader._user and not (configuration.api_key or configuration.cert_file):
                raise self._broken("its exec plugin gave neither a token nor a certificate")
        self._access = _access(configuration)
        return wait

    def _readable(self) -> list[str]:
        """The files that are there and hold something; the library cannot say what is wrong with others."""
        there = [
            name
            for part in self._paths.split(os.pathsep)
            if part and os.path.exists(name := os.path.expanduser(part))
        ]
        if not there:
            raise ClusterError("unauthorised", f"no kubeconfig at {self._paths}; name one with --kubeconfig")
        found = [name for name in there if self._holds_something(name)]
        if not found:
            raise self._broken("it is empty")
        return found

    def _holds_something(self, name: str) -> bool:
        try:
            content = yaml.safe_load(Path(name).read_bytes())
        except OSError as error:
            raise self._broken(f"{name} cannot be read: {error.strerror}") from None
        except (yaml.YAMLError, ValueError, RecursionError):  # its words would quote the file
            raise self._broken(f"{name} is not YAML") from None
        if content is not None and not isinstance(content, dict):
            raise self._broken(
                f"{name} is not a kubeconfig: expected an object with clusters, users and contexts"
            )
        for part in ("clusters", "contexts", "users"):
            if content and not isinstance(content.get(part) or [], list):
                raise self._broken(f"{name} is not a kubeconfig: expected {part} to be a list")
        return bool(content)

    def _wait(self, loader: Any) -> float:
        expiry = getattr(loader, "exec_plugin_expiry", None)
        if isinstance(expiry, datetime.datetime):
            return max(LOOK_AGAIN, expiry.timestamp() - self._wall() - EXPIRY_MARGIN)
        user = getattr(loader, "_user", None) or ()
        if "exec" in user:
            return PLUGIN_LOOK
        return PROVIDER_LOOK if "auth-provider" in user else LOOK_AGAIN


def _source(kubeconfig: str, environ: Mapping[str, str], service_account: str) -> tuple[str, bool]:
    """The named file, else KUBECONFIG, else the pod's own account, else the home directory's file."""
    if kubeconfig or environ.get("KUBECONFIG"):
        return kubeconfig or environ["KUBECONFIG"], False
    if environ.get("KUBERNETES_SERVICE_HOST") and Path(service_account, "token").is_file():
        return "", True
    return str(Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"), False


def _access(configuration: Any) -> Access:
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    token = " ".join((configuration.api_key.get("BearerToken") or "").split())  # token files end in a newline
    return Access(
        host=configuration.host.rstrip("/"),
        authorization=token,
        ca_file=files[0],
        cert_file=files[1],
        key_file=files[2],
        verify=configuration.verify_ssl,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
        stamps=tuple((name, os.stat(name).st_mtime_ns) for name in files if name),
    )


def _told(error: Exception) -> str:
    text = str(error).split("{", 1)[0].splitlines()
    return (text[0].strip()[:200] if text and text[0].strip() else "") or type(error).__name__
