"""Things that are there without having been bought by a client: foreign ones, orphans, look-alikes.

Somebody made them in the console. What is planted costs money like anything else; `{n}` in a name or a
description counts up when several are planted at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from controller.sandbox.cloud import disks, lifecycle
from controller.sandbox.cloud.answers import Refusal
from controller.sandbox.cloud.disk_orders import VOLUME_TYPES
from controller.sandbox.cloud.given import GIVEN
from controller.sandbox.cloud.ground import Ground
from controller.sandbox.cloud.instances import place
from controller.sandbox.cloud.knobs import BadSetting
from controller.sandbox.cloud.model import DESTROY, TRASH
from controller.sandbox.cloud.order import read_order
from controller.sandbox.cloud.reading import Fields
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.state import State
from controller.sandbox.cloud.tags import parse_tags
from controller.sandbox.cloud.texts import Script, SshKey

Planter = Callable[[State, int], str]  # plants the nth, tells its id
ORDINARY: dict[str, Any] = {
    "instance_type": "CPU.4V.16G",
    "image": "ubuntu-24.04",
    "location_code": "FIN-03",
}
WHERE = ("detached", "attached", "trash", "destroyed")
KINDS = ("instance", "disk", "script", "ssh_key")


@dataclass(frozen=True, slots=True)
class Planting:
    kind: str
    count: int
    plant: Planter

    def all(self, state: State) -> list[str]:
        return [self.plant(state, number) for number in range(self.count)]


def read_planting(at: str, raw: Any) -> Planting:
    """`{instance: {…}}`, `{disk: {…}}`, `{script: {…}}` or `{ssh_key: {…}}`, each with `count` if wanted."""
    if not isinstance(raw, dict) or len(raw) != 1 or next(iter(raw)) not in KINDS:
        raise BadSetting(at, raw, "an object with one of " + ", ".join(KINDS))
    kind = next(iter(raw))
    fields = Fields(f"{at}.{kind}", raw[kind])
    count = fields.count("count", 1, least=1) or 1
    plant = {"instance": _instance, "disk": _disk, "script": _script, "ssh_key": _ssh_key}[kind](fields)
    return Planting(kind, count, plant)


def _instance(fields: Fields) -> Planter:
    """The body of a create, with `running: false` if it is still to come; most keys have a default."""
    running, body = fields.flag("running", True), {}
    fields.needed("hostname")
    for key in GIVEN["InstanceOrder"]["properties"]:
        value = fields.any(key)
        if value is not None:
            body[key] = value
    fields.done()
    _try(fields.at, _numbered({**ORDINARY, **body}, 0))

    def plant(state: State, number: int) -> str:
        instance = place(state, read_order(state, _numbered({**ORDINARY, **body}, number)))
        if running:
            lifecycle.begin_running(state, instance)
        else:
            lifecycle.begin(state, instance, by=lifecycle.CONSOLE)
        return instance.id

    return plant


def _try(at: str, body: dict[str, Any]) -> None:
    """Against a cloud of which nothing is known but its catalogue."""
    blank = State(Ground(Settings(), lambda: 0.0, random.Random(0)))
    try:
        read_order(blank, body | {"existing_volumes": None, "startup_script_id": None})
    except Refusal as refusal:
        raise BadSetting(at, body, f"the body of a create ({refusal.message})") from None


def _disk(fields: Fields) -> Planter:
    name, size = fields.needed("name"), fields.count("size", 50, least=1) or 50
    kind, location = fields.choice("type", VOLUME_TYPES, "NVMe"), fields.text("location", "FIN-03")
    where, owner = fields.choice("where", WHERE, "detached"), fields.text("instance")
    image, tags = fields.text("os_image"), fields.items("tags", "a list of {key, value}")
    if (where == "attached") != bool(owner):
        raise fields.bad("instance", "a hostname for a disk that is attached, and for no other")
    fields.done()

    def plant(state: State, number: int) -> str:
        volume = disks.make(
            state,
            name=_numbered(name, number),
            size=size,
            kind=kind,
            location=location,
            os_image=image or None,
            tags=parse_tags(state, tags),
        )
        if owner:
            hostname = _numbered(owner, number)
            found = [one for one in state.instances.values() if one.live and one.hostname == hostname]
            if not found:
                raise Refusal(400, f"no live instance has the hostname {hostname}")
            disks.attach(state, volume, found[-1])
        elif where != "detached":
            disks.finish(state, volume, TRASH if where == "trash" else DESTROY)
        return volume.id

    return plant


def _script(fields: Fields) -> Planter:
    name, text = fields.needed("name"), fields.text("script", "#!/bin/bash\n")
    fields.done()

    def plant(state: State, number: int) -> str:
        script = Script(state.new_id(), _numbered(name, number), _numbered(text, number), state.now)
        state.scripts[script.id] = script
        return script.id

    return plant


def _ssh_key(fields: Fields) -> Planter:
    name, text = fields.needed("name"), fields.text("key", "ssh-ed25519 AAAA")
    fields.done()

    def plant(state: State, number: int) -> str:
        key = SshKey(state.new_id(), _numbered(name, number), text, None)
        state.ssh_keys[key.id] = key
        return key.id

    return plant


def _numbered(value: Any, number: int) -> Any:
    if isinstance(value, str):
        return value.replace("{n}", str(number))
    if isinstance(value, list):
        return [_numbered(item, number) for item in value]
    if isinstance(value, dict):
        return {key: _numbered(item, number) for key, item in value.items()}
    return value
