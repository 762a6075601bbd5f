"""A machine whose kubelet and containerd are real: it registers, runs pods, and ends as if it were switched off.

containerd, kubelet, their pods and all that these mount live in one process and one mount namespace (see
boot.sh), so that nothing can outlive the machine. What the kernel keeps elsewhere, the containers' cgroups
and the pods' bridge, is taken away at the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.node import image
from tests.e2e.controlplane.node.identity import Identity
from tests.e2e.controlplane.plane import free_port

BOOT = Path(__file__).with_name("boot.sh")
CNI = Path("/usr/lib/cni")
RUNC = Path("/usr/sbin/runc")
NAMESPACES = [
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
]
CGROUPS = Path("/sys/fs/cgroup")
_SOCKET = "/run/containerd/containerd.sock"
_KUBELET = "/var/lib/kubelet"  # not to be chosen: device plugins register there


class Machine:
    """`start` is its first boot, `stop` its end. Its folder is made and removed by it."""

    def __init__(self, programs: Path, folder: Path, identity: Identity, bootstrap: dict[str, Any]) -> None:
        self._programs = programs
        self.folder = folder
        self._identity = identity
        self._bootstrap = bootstrap
        self.mark = f"e2e-{secrets.token_hex(4)}"  # its bridge
        self._process: subprocess.Popen[bytes] | None = None
        self._processes = ""  # the namespace of its processes
        self._containers: list[str] = []  # that still ran when it was switched off

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        image.make(self._programs, self.folder / "image.tar")
        (self.folder / "containerd.toml").write_text(_containerd(self.folder / "cni"))
        (self.folder / "cni").mkdir()
        (self.folder / "cni" / "pods.conflist").write_text(json.dumps(_network(self.mark)))
        (self.folder / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet()))
        (self.folder / "bootstrap.kubeconfig").write_text(yaml.safe_dump(self._bootstrap))
        flags = [
            *self._identity.flags(), f"--config={self.folder}/kubelet.yaml", f"--root-dir={_KUBELET}",
            f"--cert-dir={_KUBELET}/pki", f"--kubeconfig={_KUBELET}/kubeconfig",
            f"--bootstrap-kubeconfig={self.folder}/bootstrap.kubeconfig", "--v=2",
        ]  # fmt: skip
        with (self.folder / "boot.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*NAMESPACES, "bash", str(BOOT), str(self.folder), str(self._programs), *flags],
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/",
            )  # fmt: skip
        self._processes = _namespace_of_children(self._process.pid)

    def stop(self) -> None:
        """Switched off, not shut down: nobody gets a last word."""
        if self._process is not None:
            assert self._process.stdin
            self._process.stdin.close()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)
        self._containers = self._tasks()
        _remove_cgroups(self._containers)
        _remove_bridge(self.mark)
        shutil.rmtree(self.folder, ignore_errors=True)

    def traces(self) -> list[str]:
        """What of it is to be seen from outside its namespaces: nothing, once it was stopped."""
        found = [f"process {pid}" for pid in _inside(self._processes)]
        found += [f"cgroup {path}" for path in _cgroups(self._containers or self._tasks())]
        places = {"bridge": Path("/sys/class/net", self.mark), "folder": self.folder}
        found += [f"{what} {path}" for what, path in places.items() if path.exists()]
        mounts = Path("/proc/self/mounts").read_text()
        return found + ([f"mounts below {self.folder}"] if f"{self.folder}/" in mounts else [])

    def _tasks(self) -> list[str]:
        """The containers that have not ended in order."""
        folder = self.folder / "run/containerd/io.containerd.runtime.v2.task/k8s.io"
        return [path.name for path in folder.iterdir()] if folder.is_dir() else []

    def last_words(self) -> str:
        """The end of what its programs said, for whoever wonders why it does not do as it should."""
        logs = [self.folder / f"{program}.log" for program in ("boot", "import", "containerd", "kubelet")]
        return "\n".join(f"{log.name}:\n{log.read_text()[-3000:]}" for log in logs if log.exists())


def _containerd(networks: Path) -> str:
    images, runtime = ('plugins."io.containerd.cri.v1.' + part for part in ("images", "runtime"))
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "{_SOCKET}"
[{images}"]
snapshotter = "native"  # overlay does not lie on every file system
[{images}".pinned_images]
sandbox = "{image.NAME}"
[{runtime}"]
restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE no pod would start
disable_hugetlb_controller = true
[{runtime}".cni]
bin_dirs = ["{CNI}"]
conf_dir = "{networks}"
[{runtime}".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{runtime}".containerd.runtimes.runc.options]
BinaryName = "{RUNC}"
"""


def _network(bridge: str) -> dict[str, Any]:
    """Addresses without a way out: a gateway would switch on forwarding for the whole host."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": "10.78.0.0/24"}]],
        "dataDir": "/run/cni-addresses",
    }
    plugin = {"type": "bridge", "bridge": bridge, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]}


def _kubelet() -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/none",  # limits of the whole node would be the host's
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "address": "127.0.0.1",
        "port": free_port(),
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
        "authorization": {"mode": "Webhook"},
        "rotateCertificates": True,
        # The host's disk may be as full as it likes.
        "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "1s",
        "oomScoreAdj": 0,
        "registerNode": True,
    }


def _namespace_of_children(pid: int) -> str:
    """Once it is another one than ours. The kernel shows none while its first process is not there yet."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError):
            found = os.readlink(f"/proc/{pid}/ns/pid_for_children")
            if found != os.readlink("/proc/self/ns/pid"):
                return found
        time.sleep(0.02)
    raise TimeoutError("the machine got no namespace for its processes")


def _inside(namespace: str) -> list[str]:
    found = []
    for link in Path("/proc").glob("[0-9]*/ns/pid"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if os.readlink(link) == namespace:
                found.append(link.parts[2])
    return found


# -- what is kept outside the namespaces ----------------------------------------------------------------


def _remove_bridge(name: str) -> None:
    """As `ip link delete` does it, which not every machine has."""
    flags_of, remove = 0x8914, 0x89A1  # SIOCSIFFLAGS, SIOCBRDELBR
    with socket.socket() as asked:
        try:
            fcntl.ioctl(asked, flags_of, struct.pack("16sh14x", name.encode(), 0))
            fcntl.ioctl(asked, remove, name.encode() + b"\0")
        except OSError:
            return  # there was no pod


def _cgroups(containers: Iterable[str]) -> list[Path]:
    """One in the unified hierarchy, or one for each controller."""
    places = (CGROUPS / "k8s.io", *CGROUPS.glob("*/k8s.io"))
    return [place / name for place in places for name in containers if (place / name).is_dir()]


def _remove_cgroups(containers: Iterable[str]) -> None:
    """Those of containers whose shims had no time to do it, and the parent of all when it is empty."""
    end = time.monotonic() + 10
    for found in _cgroups(containers):
        while found.exists():
            try:
                found.rmdir()
            except OSError:  # its last process is just being reaped
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
    for parent in (CGROUPS / "k8s.io", *CGROUPS.glob("*/k8s.io")):
        with contextlib.suppress(OSError):
            parent.rmdir()
