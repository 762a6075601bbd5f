"""The whole surface of Verda's SDK that this project could ever use, found by looking at the SDK itself.

Every public method of every service that concerns instances, and every parameter of each, has to be
used by the walk; a new version of the SDK with something new fails it. The SDK is called, not changed.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from verda import VerdaClient
from verda.constants import Actions, ErrorCodes, VolumeActions
from verda.exceptions import APIException
from verda.instances import OSVolume

NOT_OURS = {"clusters", "cluster_types", "container_types", "containers", "job_deployments"}
NOWHERE = "00000000-0000-4000-8000-000000000000"
MACHINE = ("1A100.22V", "ubuntu-24.04")
Use = tuple[str, str, str]  # service, method, parameter


def services(client: VerdaClient) -> Iterator[tuple[str, Any]]:
    for name, value in vars(client).items():
        if not name.startswith("_") and name != "constants" and name not in NOT_OURS:
            yield name, value


def surface(client: VerdaClient) -> set[Use]:
    return {
        (name, method, parameter)
        for name, service in services(client)
        for method, function in inspect.getmembers(type(service), inspect.isfunction)
        if not method.startswith("_")
        for parameter in inspect.signature(function).parameters
    }


class Watched:
    """The client, through which every use of a service is noted."""

    def __init__(self, client: VerdaClient) -> None:
        self.uses: set[Use] = set()
        for name, service in services(client):
            setattr(self, name, _Watched(name, service, self.uses))

    def __getattr__(self, name: str) -> Any:  # for services, which are set above
        raise AttributeError(name)


class _Watched:
    def __init__(self, name: str, service: Any, uses: set[Use]) -> None:
        self._name, self._service, self._uses = name, service, uses

    def __getattr__(self, method: str) -> Callable[..., Any]:
        function = getattr(type(self._service), method)

        def call(*words: Any, **named: Any) -> Any:
            used = inspect.signature(function).bind(self._service, *words, **named).arguments
            self._uses.update((self._name, method, parameter) for parameter in used)
            return function(self._service, *words, **named)

        return call


class Walk:
    def __init__(self, client: VerdaClient, within: float) -> None:
        self.sdk: Any = Watched(client)
        self.within = within

    def until(self, holds: Callable[[], object], what: str) -> None:
        end = time.monotonic() + self.within
        while not holds():
            assert time.monotonic() < end, f"not within {self.within:g} s: {what}"
            time.sleep(0.02)

    def all(self) -> set[Use]:
        self.look()
        self.scripts_and_keys()
        self.machines()
        self.disks()
        uses: set[Use] = self.sdk.uses
        return uses

    def look(self) -> None:
        sdk = self.sdk
        types = {one.instance_type: one for one in sdk.instance_types.get(currency="usd")}
        assert len(types) == 55
        assert types["1A100.22V"].price_per_hour > types["1A100.22V"].spot_price_per_hour > 0
        assert types["8A100.176V"].gpu["number_of_gpus"] == 8
        assert sdk.instance_types.get(currency="eur")[0].currency == "eur"
        place = sdk.locations.get()[0]["code"]
        for spot in (True, False):
            assert sdk.instances.is_available("1A100.22V", is_spot=spot, location_code=place) is True
            (row,) = sdk.instances.get_availabilities(is_spot=spot, location_code=place)
            assert "1A100.22V" in row["availabilities"]
        assert len(sdk.instances.get_availabilities()) == len(sdk.locations.get())
        assert {one.image_type for one in sdk.images.get(instance_type="1A100.22V")} < {
            one.image_type for one in sdk.images.get()
        } | {"ubuntu-22.04-cuda-12.4-cluster", "ubuntu-22.04-cuda-12.8-cluster"}
        assert {one.type for one in sdk.volume_types.get()} >= {"NVMe", "NVMe_Shared"}
        assert sdk.balance.get().amount > 0
        assert sdk.balance.get().currency == "usd"
        assert sdk.long_term.get_instance_periods()[0].is_enabled
        assert sdk.long_term.get_cluster_periods()

    def scripts_and_keys(self) -> None:
        for service, words in (
            (self.sdk.startup_scripts, ("boot", "#!/bin/bash\ntrue\n")),
            (self.sdk.ssh_keys, ("me", "ssh-ed25519 AAAA me")),
        ):
            name, text = words
            key = "script" if "script" in inspect.signature(service._service.create).parameters else "key"
            made = [service.create(name=name, **{key: text}) for _ in range(3)]
            assert {one.id for one in made} <= {one.id for one in service.get()}
            again = service.get_by_id(made[0].id)
            assert (again.name, getattr(again, "script", None) or again.public_key) == words
            service.delete_by_id(made[0].id)
            service.delete([one.id for one in made[1:]])
            assert not {one.id for one in made} & {one.id for one in service.get()}
            with pytest.raises(APIException):
                service.get_by_id(made[0].id)

    def machines(self) -> None:
        sdk = self.sdk
        script = sdk.startup_scripts.create("boot", "#!/bin/bash\n")
        key = sdk.ssh_keys.create("me", "ssh-ed25519 AAAA")
        spare = sdk.volumes.create("NVMe", "spare", 20, location="FIN-01")
        waits = {"max_wait_time": self.within, "initial_interval": 0.02, "max_interval": 0.1}
        spot = sdk.instances.create(
            *MACHINE,
            hostname="walk-spot",
            description="a spot machine",
            ssh_key_ids=[key.id],
            location="FIN-01",
            startup_script_id=script.id,
            volumes=[{"name": "more", "size": 30, "type": "NVMe"}],
            existing_volumes=[spare.id],
            os_volume=OSVolume("walk-spot", 60, "delete_permanently"),
            is_spot=True,
            contract="SPOT",
            pricing="FIXED_PRICE",
            coupon=None,
            wait_for_status="running",
            **waits,
            backoff_coefficient=1.5,
        )
        assert (spot.status, spot.is_spot, spot.location, bool(spot.ip)) == ("running", True, "FIN-01", True)
        assert (spot.hostname, spot.description, spot.ssh_key_ids) == (
            "walk-spot",
            "a spot machine",
            [key.id],
        )
        plain = sdk.instances.create(
            *MACHINE, "walk-plain", "", os_volume={"name": "walk-plain", "size": 50}, wait_for_status=None
        )
        waited = sdk.instances.create(*MACHINE, "walk-other", "", **waits)
        assert waited.status != "ordered"
        ids = {one.id for one in sdk.instances.get()}
        assert {spot.id, plain.id, waited.id} <= ids
        assert spot.id in {one.id for one in sdk.instances.get(status="running")}
        self.until(lambda: sdk.instances.get_by_id(waited.id).status == "running", "running")
        self.until(lambda: sdk.instances.get_by_id(plain.id).status == "running", "running")
        self.actions(spot.id, plain.id, waited.id)
        sdk.startup_scripts.delete([script.id])
        sdk.ssh_keys.delete([key.id])

    def actions(self, spot: str, plain: str, waited: str) -> None:
        sdk = self.sdk
        sdk.instances.action(plain, Actions.SHUTDOWN)
        self.until(lambda: sdk.instances.get_by_id(plain).status == "offline", "offline")
        self.attach(plain)
        sdk.instances.action([plain], Actions.START)
        self.until(lambda: sdk.instances.get_by_id(plain).status == "running", "running again")
        with pytest.raises(APIException, match="Invalid action restore"):
            sdk.instances.action(plain, Actions.RESTORE)  # in the SDK, not in the API
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            sdk.instances.action(waited, Actions.HIBERNATE)
        disks = {one.id for one in sdk.volumes.get() if one.instance_id in (spot, plain)}
        sdk.instances.action(
            id_list=[spot, plain], action=Actions.DELETE, volume_ids=sorted(disks), delete_permanently=True
        )
        self.until(lambda: sdk.instances.get() == [], "no instance is left")
        self.until(lambda: not disks & {one.id for one in sdk.volumes.get()}, "their disks are gone")
        assert not disks & {one.id for one in sdk.volumes.get_in_trash()}
        assert sdk.instances.get_by_id(spot).status == "discontinued"
        for one in sdk.volumes.get():  # of the hibernated one: kept, and billed
            sdk.volumes.delete_by_id(one.id, is_permanent=True)
        self.until(lambda: sdk.volumes.get() == [], "no disk is left")

    def attach(self, machine: str) -> None:
        sdk = self.sdk
        disk = sdk.volumes.create(type="NVMe", name="data", size=20, instance_id=machine, location="FIN-03")
        assert sdk.volumes.get_by_id(disk.id).instance_id == machine
        sdk.volumes.detach(id_list=disk.id)
        assert sdk.volumes.get_by_id(disk.id).instance_id is None
        sdk.volumes.attach(id_list=[disk.id], instance_id=machine)
        assert disk.id in {one.id for one in sdk.volumes.get(status="attached")}

    def disks(self) -> None:
        sdk = self.sdk
        first, second = (sdk.volumes.create("NVMe", name, 50) for name in ("one", "two"))
        sdk.volumes.rename(id_list=[first.id, second.id], name="same")
        sdk.volumes.increase_size(id_list=first.id, size=60)
        copy = sdk.volumes.clone(id=first.id, name="copy", type="NVMe")
        assert (copy.size, copy.name) == (60, "copy")
        copies = sdk.volumes.clone([first.id, second.id])
        assert [one.name for one in copies] == ["same", "same"]
        sdk.volumes.delete(id_list=[first.id, second.id], is_permanent=False)
        trash = {first.id, second.id}
        self.until(lambda: trash <= {one.id for one in sdk.volumes.get_in_trash()}, "both are in the trash")
        sdk.volumes.delete([first.id, second.id, copy.id], is_permanent=True)
        for one in copies:
            sdk.volumes.delete_by_id(volume_id=one.id, is_permanent=True)
        self.until(lambda: sdk.volumes.get() == sdk.volumes.get_in_trash() == [], "nothing is left")


def volume_actions() -> set[str]:
    """What the SDK can do to disks; each is behind a method of its own."""
    return {value for name, value in vars(VolumeActions).items() if name.isupper()}


def error_codes() -> set[str]:
    return {value for name, value in vars(ErrorCodes).items() if name.isupper()}
