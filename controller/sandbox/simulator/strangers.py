"""What is not ours, beside us in the account and in the cluster: look-alikes that carry one mark of ours at most.

Whatever the controller does, these stay as they were; what they cost is not its cost. What the world does to them (no
money left, somebody in the console) is not its deed.
"""

from __future__ import annotations

from typing import Any

from controller.domain import names
from controller.sandbox.cloud.billing import Meter
from controller.sandbox.simulator.worlds import Worlds

INTENT = "aaaaaaaaaa"
NODE = "foreign-gpu-node"
PLAIN = "plain-node"  # where pods without GPUs have a place
NODES = (NODE, PLAIN)
KIND = {"instance_type": "CPU.4V.16G", "image": "ubuntu-24.04", "location_code": "FIN-01"}


def _things(cluster: str) -> list[dict[str, Any]]:
    machines = [
        {"hostname": "database"},
        {"hostname": f"{cluster}-all-{INTENT}", "description": "made by hand"},
        {"hostname": "worker", "description": f"gpuas {cluster} {INTENT}"},
    ]
    return [
        *({"instance": {**KIND, **each}} for each in machines),
        {"disk": {"name": "data", "location": "FIN-01"}},
        {"disk": {"name": f"{cluster}-all-{INTENT}", "location": "FIN-01"}},
        {"script": {"name": f"gpuas-{cluster}-{INTENT}", "script": "#!/bin/bash\necho mine\n"}},
        {"script": {"name": "mine", "script": f"#!/bin/bash\n# gpuas {cluster} {INTENT}\n"}},
    ]


class Strangers:
    def __init__(self, worlds: Worlds, cluster: str) -> None:
        self._worlds = worlds
        worlds.tell_cloud("POST", "events", {"event": "plant", "things": _things(cluster)})
        state = worlds.cloud.state
        self.instances = frozenset(state.instances)
        self.volumes = frozenset(state.volumes)
        self.scripts = frozenset(state.scripts)
        node = {
            "kind": "Node",
            "metadata": {"name": NODE, "labels": {names.LABEL_HOSTNAME: NODE}},
            "spec": {"providerID": f"other://{NODE}", "unschedulable": True},
        }
        worlds.ask_cluster("POST", "/api/v1/nodes", node)
        self._were = self._now()

    def _now(self) -> dict[str, object]:
        state = self._worlds.cloud.state
        found: dict[str, object] = {}
        for key in self.instances:
            one = state.instances.get(key)
            found[f"machine {key}"] = one and one.status in ("deleting", "discontinued")
        for key in self.volumes:
            disk = state.volumes.get(key)
            found[f"disk {key}"] = disk and (disk.live, disk.status == "deleting")
        for key in self.scripts:
            found[f"script {key}"] = key in state.scripts
        return found

    def settle(self) -> None:
        """What happened until now was the world's doing."""
        self._were = self._now()

    def touched(self) -> list[str]:
        """What is not as it was before this call; told once."""
        now, were = self._now(), self._were
        self._were = now
        return sorted(key for key in now if now[key] != were[key])

    def meters(self) -> list[Meter]:
        state = self._worlds.cloud.state
        return [
            *(one.meter for key, one in state.instances.items() if key in self.instances),
            *(one.meter for key, one in state.volumes.items() if key in self.volumes),
        ]
