"""From the settings to endpoints that can be called: addresses, ways to call, and where credentials are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.app.parts import ReadSecret, kept_secret
from controller.cloud.webhook.calls import Target, Way
from controller.cloud.webhook.endpoints import HttpEndpoints, Read, Sources, Unreadable
from controller.cluster.protocol import ClusterError
from controller.config.settings import Settings
from controller.config.switching import SwitchedMachine
from controller.config.webhooks import ValueFrom, WebhookSetting
from controller.report.logs import keep_secret

_LARGEST = 65_536


def make_endpoints(settings: Settings, read_secret: ReadSecret, clock: Callable[[], float]) -> HttpEndpoints:
    """Also without machines: of those that the last settings had, taints of ours may be left on their Nodes."""
    targets, sources = {}, {}
    for machine in settings.machines:
        webhook = settings.webhooks.get(machine.webhook or "") or WebhookSetting()
        targets[machine.name] = _target(machine, webhook)
        sources[machine.name] = _sources(webhook, kept_secret(read_secret))
    return HttpEndpoints(targets, sources, clock)


def secrets_of_switches(settings: Settings) -> tuple[str, ...]:
    """Names of the Secrets that calls need."""
    found: list[str] = []
    for machine in settings.machines:
        webhook = settings.webhooks.get(machine.webhook or "")
        for source in _values(webhook) if webhook is not None else ():
            if source.secret is not None:
                found.append(source.secret.name)
    return tuple(dict.fromkeys(found))


def _values(webhook: WebhookSetting) -> list[ValueFrom]:
    auth, tls = webhook.auth, webhook.tls
    found = [
        auth.bearer,
        auth.basic.password if auth.basic else None,
        auth.header.value if auth.header else None,
        auth.hmac.key if auth.hmac else None,
        tls.ca,
        tls.certificate,
        tls.key,
    ]
    return [one for one in found if one is not None]


def _target(machine: SwitchedMachine, webhook: WebhookSetting) -> Target:
    auth = webhook.auth
    way = Way(
        method=webhook.method,
        headers=webhook.headers,
        body=webhook.body,
        content_type=webhook.content_type,
        success=tuple(_range(text) for text in webhook.success),
        idempotency_header=webhook.idempotency_header,
        timeout=webhook.timeout.total_seconds(),
        username=auth.basic.username if auth.basic else "",
        key_header=auth.header.name if auth.header else "",
        signature_header=auth.hmac.header if auth.hmac else "",
        algorithm=auth.hmac.algorithm if auth.hmac else "sha256",
        timestamp_header=(auth.hmac.timestamp_header or "") if auth.hmac else "",
        server_name=webhook.tls.server_name or "",
        field=webhook.status.field or "",
        means_on=webhook.status.means_on,
        means_off=webhook.status.means_off,
    )
    return Target(
        name=machine.name,
        gpus=machine.gpu_count,
        on=machine.scale_up_endpoint,
        off=machine.scale_down_endpoint,
        status=machine.status_endpoint or "",
        way=way,
    )


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def _sources(webhook: WebhookSetting, read_secret: ReadSecret) -> Sources:
    def of(given: ValueFrom | None) -> Read | None:
        return _reader(given, read_secret) if given is not None else None

    auth, tls = webhook.auth, webhook.tls
    return Sources(
        bearer=of(auth.bearer),
        password=of(auth.basic.password if auth.basic else None),
        key=of(auth.header.value if auth.header else None),
        signing=of(auth.hmac.key if auth.hmac else None),
        ca=of(tls.ca),
        certificate=of(tls.certificate),
        private_key=of(tls.key),
    )


def _reader(given: ValueFrom, read_secret: ReadSecret) -> Read:
    async def read() -> str:
        if given.secret is not None:
            try:
                return await read_secret(given.secret.name, given.secret.key)
            except ClusterError as error:
                raise Unreadable(f"Secret {given.secret.name} cannot be read: {error.message}") from None
        path = str(given.file)
        found = await asyncio.to_thread(_read_file, path)
        keep_secret(found)
        return found

    return read


def _read_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST + 1)
        text = content.decode()
    except OSError as error:
        raise Unreadable(f"file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Unreadable(f"file {path} is no text") from None
    if not text.strip() or len(content) > _LARGEST:
        raise Unreadable(f"file {path} is empty, or larger than 64 KiB")
    return text
