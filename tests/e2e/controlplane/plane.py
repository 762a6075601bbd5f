"""A real control plane on free loopback ports: etcd, API server, scheduler, controller manager, KWOK.

TLS as the API server makes it, RBAC in force, service accounts signed by a key of its own. Everything
lives under one temporary directory, is ended by its own process id, and leaves nothing behind.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import random
import secrets
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.pki import NAME, Authority

OUTGOING, LOWEST = Path("/proc/sys/net/ipv4/ip_local_port_range"), 12_000
START_WITHIN = 180.0  # four of them may start at once, on two slow cores
ADMIN = "e2e-admin"
MEMORY = {"GOGC": "300"}  # is there; time is not, and a quarter of it goes into collecting garbage
ENDLESS = "e2e/endless"  # annotation of a Job's pod: its work does not end by itself
# Who asked for what, of service accounts that are not the cluster's own; never a body.
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system", "system:masters"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


def free_port() -> int:
    """Outside of what outgoing connections are given, where there is room: a server that is killed and comes back
    must find its port free, however many clients call it meanwhile."""
    outgoing = int(OUTGOING.read_text().split()[0])
    below = random.SystemRandom().sample(range(LOWEST, outgoing), 20) if outgoing > LOWEST + 1000 else []
    for port in (*below, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found: int = probe.getsockname()[1]
            return found
    raise OSError("no port on loopback is free")


_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """Also when the test run is killed, nothing stays behind."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class ControlPlane:
    """`start`, then `kubeconfig`; `stop` ends every process that was started here."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self.folder = folder
        self._token = secrets.token_hex(16)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, list[str]] = {}
        self._etcd, self._peer, self.port = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    @property
    def certificate(self) -> Path:
        return self.folder / "pki" / "apiserver.crt"

    # -- life ---------------------------------------------------------------------------------------

    def start(self) -> None:
        self.serve(
            "--enable-admission-plugins", "NodeRestriction",
            # Native gangs are served by default nowhere yet.
            "--runtime-config", "scheduling.k8s.io/v1alpha2=true", "--feature-gates", "GenericWorkload=true",
        )  # fmt: skip
        self.schedule({"podMaxBackoffSeconds": 1})  # a pod's next try soon after its node is complete
        self.manage(
            "--service-account-private-key-file", str(self._key), "--root-ca-file", str(self.certificate),
            "--use-service-account-credentials", "--node-monitor-grace-period=20s",
            "--cluster-signing-cert-file", self._signer[0], "--cluster-signing-key-file", self._signer[1],
        )  # fmt: skip
        stages = [f"--config={path}" for path in self._stages()]
        self.run(
            "kwok", "--kubeconfig", str(self.kubeconfig), *stages,
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds=40",
            "--disregard-status-with-annotation-selector=kwok.x-k8s.io/status=custom",
            "--server-address", f"127.0.0.1:{free_port()}",
        )  # fmt: skip
        self._wait(
            "the default service account exists",
            lambda: self._get("/api/v1/namespaces/default/serviceaccounts/default") is not None,
        )

    @property
    def _key(self) -> Path:
        return self.folder / "sa.key"

    @property
    def _signer(self) -> list[str]:
        return [str(self.folder / name) for name in ("clients.crt", "clients.key")]

    def serve(self, *more: str) -> None:
        """Etcd and the API server."""
        (self.folder / "pki").mkdir(parents=True)
        for words in (
            ["genrsa", "-out", str(self._key), "2048"],
            ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=clients", "-days", "30",
             "-out", self._signer[0], "-keyout", self._signer[1]],
        ):  # fmt: skip
            subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=30)
        self.authority = Authority(self.folder / "authority")
        self.authority.issue(self.folder)
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self._token},{ADMIN},{ADMIN},"system:masters"\n')
        policy = self.folder / "audit.yaml"
        policy.write_text(yaml.safe_dump(AUDIT))
        etcd = f"http://127.0.0.1:{self._etcd}"
        peer = f"http://127.0.0.1:{self._peer}"
        self.run(
            "etcd", "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls",
            etcd, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
            f"default={peer}", "--unsafe-no-fsync", "--log-level", "error",
        )  # fmt: skip
        self.run(
            "kube-apiserver", "--etcd-servers", etcd, "--secure-port", str(self.port), "--bind-address", "127.0.0.1",
            "--cert-dir", str(self.folder / "pki"), "--service-account-key-file", str(self._key),
            "--service-account-signing-key-file", str(self._key), "--service-account-issuer", "https://e2e.local",
            "--token-auth-file", str(tokens), "--authorization-mode", "Node,RBAC", "--service-cluster-ip-range",
            "10.77.0.0/16", "--enable-bootstrap-token-auth", "--allow-privileged", "-v", "0",
            "--client-ca-file", self._signer[0],
            "--audit-policy-file", str(policy), "--audit-log-path", str(self.folder / "audit.log"),
            "--tls-sni-cert-key", f"{self.folder}/front.crt,{self.folder}/front.key:{NAME}", *more,
        )  # fmt: skip
        self._wait("the API server is ready", self.ready)
        self.kubeconfig.write_text(yaml.safe_dump(self.kubeconfig_for(self._token)))

    def schedule(self, more: Mapping[str, Any], *words: str) -> None:
        """The scheduler, without the limits that a large cluster needs."""
        fast = self.folder / "scheduler.yaml"
        fast.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "leaderElection": {"leaderElect": False},
                    "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": 1000, "burst": 2000},
                    **more,
                }
            )
        )
        self.run(
            "kube-scheduler",
            "--config",
            str(fast),
            "--bind-address",
            "127.0.0.1",
            "--secure-port",
            str(free_port()),
            *words,
        )

    def manage(self, *more: str) -> None:
        """The controller manager."""
        self.run(
            "kube-controller-manager", "--kubeconfig", str(self.kubeconfig), "--leader-elect=false",
            "--bind-address", "127.0.0.1", "--secure-port", str(free_port()), *more,
        )  # fmt: skip

    def _stages(self) -> list[Path]:
        """As they come with KWOK, but a Job's pod that says so does not complete at once."""
        made = []
        for path in sorted((self._programs / "stages").glob("*.yaml")):
            stage = yaml.safe_load(path.read_text())
            if stage["metadata"]["name"] == "pod-complete":
                unless = {"key": f'.metadata.annotations["{ENDLESS}"]', "operator": "DoesNotExist"}
                stage["spec"]["selector"]["matchExpressions"].append(unless)
            made.append(self.folder / path.name)
            made[-1].write_text(yaml.safe_dump(stage))
        return made

    def run(self, program: str, *words: str) -> None:
        self._commands[program] = [str(self._programs / program), *words]
        self.restart(program)

    def restart(self, program: str) -> None:
        with (self.folder / f"{program}.log").open("ab") as log:
            self._running[program] = subprocess.Popen(
                self._commands[program], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                preexec_fn=_die_with_parent, env=os.environ | MEMORY,
            )  # fmt: skip

    def signal(self, program: str, number: int) -> None:
        self._running[program].send_signal(number)

    def killed_and_restarted(self, program: str) -> None:
        """As after a crash: on the same ports, with the same files."""
        self.signal(program, signal.SIGKILL)
        self._running[program].wait(10)
        self.restart(program)

    def ready(self) -> bool:
        return self._get("/readyz") is not None

    def end(self, program: str) -> None:
        process = self._running.pop(program)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)

    def stop(self) -> None:
        for program in reversed(list(self._running)):
            self.end(program)

    def audited(self, namespace: str) -> list[dict[str, Any]]:
        """What service accounts of the namespace asked for so far, in order."""
        lines = (self.folder / "audit.log").read_text().splitlines()
        seen = [json.loads(line) for line in lines]
        return [
            each
            for each in seen
            if each["user"]["username"].startswith(f"system:serviceaccount:{namespace}:")
        ]

    def lists(self, namespace: str) -> list[str]:
        """The kinds that they listed so far; the look at one node's pods before a delete apart."""
        asked = [each for each in self.audited(namespace) if each["verb"] == "list"]
        return [each["objectRef"]["resource"] for each in asked if "spec.nodeName" not in each["requestURI"]]

    def shown_certificate(self) -> str:
        """What the API server shows to those who call it by its second name."""
        context = ssl._create_unverified_context()  # noqa: S323
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=5) as bare,
            context.wrap_socket(bare, server_hostname=NAME) as dressed,
        ):
            return ssl.DER_cert_to_PEM_cert(dressed.getpeercert(binary_form=True) or b"")

    # -- who may come in ------------------------------------------------------------------------------

    def kubeconfig_for(self, token: str) -> dict[str, Any]:
        ca = base64.b64encode(self.certificate.read_bytes()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {"server": self.url, "certificate-authority-data": ca}}],
            "users": [{"name": "e2e", "user": {"token": token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "current-context": "e2e",
        }

    def _get(self, path: str) -> Any:
        context = ssl._create_unverified_context()  # noqa: S323  (our own server, before its CA is known)
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self._token}"})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=5, context=context) as answer:  # noqa: S310
                return answer.read()
        except (urllib.error.URLError, OSError):
            return None

    def _wait(self, what: str, holds: Any) -> None:
        end = time.monotonic() + START_WITHIN
        while not holds():
            for name, process in self._running.items():
                if process.poll() is not None:
                    log = (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{name} ended with code {process.returncode}:\n{log}")
            if time.monotonic() > end:
                raise TimeoutError(f"not within {START_WITHIN:g} s: {what}")
            time.sleep(0.1)


def rights_of(manifests: str, namespace: str) -> list[Mapping[str, Any]]:
    """The objects of a rendered chart that decide who may do what, with their namespace filled in."""
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    found = [made for made in yaml.safe_load_all(manifests) if made and made.get("kind") in kinds]
    for made in found:
        if not made["kind"].startswith("Cluster"):
            made["metadata"].setdefault("namespace", namespace)
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]
