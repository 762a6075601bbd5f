"""The real parts: a cloud, a connection to a cluster, an identity — made from settings.

Made here and nowhere else, so that tests, demo and simulator can put others in their place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from weakref import WeakKeyDictionary

import msgspec

from controller.app.exits import CONFIGURATION, UNREACHABLE, Ends
from controller.cloud.none import NoCloud
from controller.cloud.protocol import Cloud, CloudError
from controller.cloud.verda.provider import VerdaCloud
from controller.cloud.verda.wire import Login
from controller.cluster.connection import Connection
from controller.cluster.credentials import Credentials
from controller.cluster.protocol import ClusterError
from controller.config.credentials import LiveCredentials
from controller.config.settings import Settings
from controller.domain.cloudthings import Catalogue
from controller.domain.names import default_cluster_id
from controller.join.joiner import Entry, Surroundings
from controller.report.logs import keep_secret, mask

log = logging.getLogger("gpu_autoscaler")
FIRST_ANSWER = 15.0  # seconds; at the start nobody would see why nothing happens
_T = TypeVar("_T")
ReadSecret = Callable[[str, str], Awaitable[str]]
_LIVE: WeakKeyDictionary[object, LiveCredentials] = WeakKeyDictionary()  # whose credentials may change


class Now(msgspec.Struct, frozen=True):
    """Time, sleeping and randomness, injected everywhere."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    rng: random.Random = random.SystemRandom()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def make_cloud(settings: Settings, now: Now, files: Mapping[str, str] | None = None) -> VerdaCloud:
    """`files`: the credentials that stand in files, which may change while the program runs."""
    verda = settings.verda
    missing = [
        name
        for name, value in (
            ("VERDA_CLIENT_ID", verda.client_id),
            ("VERDA_CLIENT_SECRET", verda.client_secret),
        )
        if not value
    ]
    if missing or verda.client_id is None or verda.client_secret is None:
        raise Ends(
            CONFIGURATION,
            f"{' and '.join(missing)}: not set; expected the API credentials of the Verda project "
            "(console: project page, Keys, Cloud API Credentials)",
        )
    secret = verda.client_secret.get_secret_value()
    keep_secret(secret, verda.client_id, *_tokens_in(settings))
    live = LiveCredentials(verda, files or {}, changed=keep_secret)

    def login() -> Login:
        client_id, client_secret, base_url = live.current()
        return Login(client_id=client_id, client_secret=client_secret, base_url=base_url)

    cloud = VerdaCloud(
        login=login,
        clock=now.wall,
        monotonic=now.monotonic,
        sleep=now.sleep,
        rng=now.rng,
        connect_timeout=verda.connect_timeout.total_seconds(),
        read_timeout=verda.read_timeout.total_seconds(),
        types_ttl=settings.timing.catalogue.total_seconds() / 2,  # prices are as new as the stock beside them
        currency=verda.currency,
        hide=mask,
    )
    _LIVE[cloud] = live
    return cloud


def _tokens_in(settings: Settings) -> tuple[str, ...]:
    """Join tokens that stand in the settings themselves."""
    given = (entry.token_from.value for entry in settings.join.values() if entry.token_from is not None)
    return tuple(value.get_secret_value() for value in given if value is not None)


def renew(cloud: object, settings: Settings, files: Mapping[str, str]) -> None:
    """Other credentials stand in the settings: the cloud is asked with them from now on."""
    live = _LIVE.get(cloud)
    if live is not None:
        live.replace(settings.verda, files)


def make_provider(settings: Settings, now: Now, files: Mapping[str, str] | None = None) -> Cloud:
    """The cloud; none for those who only switch machines of their own and name no account."""
    verda = settings.verda
    if settings.machines and not (settings.pools or verda.client_id or verda.client_secret):
        return NoCloud(now.wall)
    return make_cloud(settings, now, files)


def kept_secret(read_secret: ReadSecret) -> ReadSecret:
    """What is read from a Secret is never told, wherever it comes back from."""

    async def read(name: str, key: str) -> str:
        found = await read_secret(name, key)
        keep_secret(found)
        return found

    return read


async def know_tokens(settings: Settings, read: ReadSecret, around: Surroundings) -> None:
    """The cloud may say a token again that another process sent it, before this one needs it for the first time.

    So it may a variable of a script. One that cannot be read is told where it is needed.
    """
    for entry in settings.join.values():
        around.know(entry.variables)
        secret = entry.token_from.secret if entry.token_from is not None else None
        if secret is not None:
            with contextlib.suppress(ClusterError):
                await read(secret.name, secret.key)


async def make_connection(kubeconfig: str, environ: Mapping[str, str], now: Now) -> Connection:
    """A connection with credentials that could be read; whether the cluster takes them is not known yet."""
    credentials = Credentials(kubeconfig=kubeconfig, environ=environ, clock=now.monotonic, wall=now.wall)
    try:
        await credentials.current()
    except ClusterError as error:
        raise Ends(CONFIGURATION, error.message) from error
    return Connection(credentials)


async def cluster_id_of(connection: Connection, namespace: str) -> str:
    """The default id: derived from the cluster's own identity, so never a constant."""
    try:
        raw = await connection.request("GET", "/api/v1/namespaces/kube-system")
    except ClusterError as error:
        hint = "" if error.kind == "unreachable" else "; or set cluster_id"
        raise Ends(UNREACHABLE, f"the cluster id cannot be derived: {error.message}{hint}") from error
    uid = msgspec.json.decode(raw).get("metadata", {}).get("uid", "")
    if not uid:
        raise Ends(UNREACHABLE, "namespace kube-system has no UID; set cluster_id")
    return default_cluster_id(uid, namespace)


async def check_cloud(cloud: Cloud, settings: Settings) -> Catalogue:
    """Authenticated reads: wrong credentials and a cloud that is away are told before anything else."""
    if not isinstance(cloud, NoCloud):
        log.info("asking the cloud", extra={"url": settings.verda.base_url})
    await _answer(cloud.inventory(), settings)
    return await _answer(cloud.catalogue(), settings)


async def _answer(asked: Awaitable[_T], settings: Settings) -> _T:
    verda = settings.verda
    within = min(FIRST_ANSWER, verda.connect_timeout.total_seconds() + verda.read_timeout.total_seconds())
    try:
        async with asyncio.timeout(within):
            return await asked
    except TimeoutError as error:
        raise Ends(UNREACHABLE, f"{verda.base_url} does not answer within {within:g} s") from error
    except CloudError as error:
        raise Ends(UNREACHABLE, error.message) from error


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """Names of the Secrets that join tokens are read from."""
    given = (entry.token_from for entry in settings.join.values() if entry.token_from is not None)
    return tuple(dict.fromkeys(source.secret.name for source in given if source.secret is not None))


async def join_entries(settings: Settings, connection: Connection, namespace: str) -> dict[str, Entry]:
    """The ways to join; version and CA are the cluster's own where the settings leave them out."""
    entries: dict[str, Entry] = {}
    facts: tuple[str, str] | None = None
    for name, given in settings.join.items():
        if given.startup_script_id:
            entries[name] = Entry(startup_script_id=given.startup_script_id)
            continue
        if given.template is None:
            entries[name] = Entry(
                script=given.script.get_secret_value() if given.script is not None else "",
                script_file=given.script_file or "",
                script_url=given.script_url or "",
                variables=given.variables,
            )
            continue
        version, ca_hash, ca_cert = given.version or "", given.ca_hash or "", ""
        if not version or not ca_hash:
            facts = facts or await _facts(connection, namespace)
            version = version or facts[0]
            if not ca_hash and given.template == "kubeadm":
                ca_cert = facts[1]
            elif not ca_hash:
                ca_hash = k3s_ca_hash(facts[1])
        source = given.token_from
        secret = source.secret if source is not None else None
        token = source.value.get_secret_value() if source is not None and source.value is not None else ""
        if token:
            keep_secret(token)
        entries[name] = Entry(
            token=token,
            template=given.template or "",
            server=given.server or "",
            secret_name=secret.name if secret else "",
            secret_key=secret.key if secret else "token",
            version=version,
            ca_hash=ca_hash,
            ca_cert=ca_cert,
        )
    return entries


async def _facts(connection: Connection, namespace: str) -> tuple[str, str]:
    """The cluster's version and CA bundle; empty where they cannot be read."""
    version, bundle = "", ""
    try:
        version = msgspec.json.decode(await connection.request("GET", "/version")).get("gitVersion", "")
        raw = await connection.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt")
        bundle = msgspec.json.decode(raw).get("data", {}).get("ca.crt", "")
    except ClusterError:
        pass
    return version, bundle


def k3s_ca_hash(bundle: str) -> str:
    """What k3s compares: SHA-256 over the PEM of a single certificate, byte for byte."""
    import hashlib

    if bundle.count("-----BEGIN CERTIFICATE-----") != 1:
        return ""
    return hashlib.sha256(bundle.encode()).hexdigest()
