"""The scripts at work: real bash on a pretended machine, whose programs only write down their calls.

Every absolute path that the scripts write to is moved below a temporary directory, and every program
that would change a machine is a stand-in, so nothing of the computer that runs the tests is touched.
"""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from controller.domain.kube import Taint
from controller.join.entry import Entry
from controller.join.joiner import script
from controller.join.protocol import Joining

TOKEN = "abcdef.0123456789abcdef"
K3S = Entry(template="k3s", server="https://10.0.0.1:6443", secret_name="join", version="v1.36.3+k3s1")
KUBEADM = Entry(
    template="kubeadm", server="https://10.0.0.1:6443", secret_name="join", version="1.36.3", ca_hash="a" * 64
)
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
JOINING = Joining(
    cluster_id="home",
    intent="abcdefghij",
    name="home-a100-abcdefghij",
    provider_id="verda://home-a100-abcdefghij",
    labels={"team": "ml", "gpu-autoscaler/pool": "a100"},
    taints=(Taint("nvidia.com/gpu", "present"),),
    gpus=2,
    entry="here",
)

RECORD = 'printf "%s" "${0##*/}" >>"$CALLS"; printf " %s" "$@" >>"$CALLS"; printf "\\n" >>"$CALLS"\n'
STANDS_IN = {
    "systemctl": "",
    "swapoff": "",
    "modprobe": "",
    "sysctl": "",
    "apt-get": "",
    "apt-mark": "",
    "dpkg-query": "printf 'ii  nvidia-driver-570\\nun  nvidia-settings\\n'",
    "nvidia-smi": "printf 'GPU 0: A100\\nGPU 1: A100\\n'",
    "nvidia-container-runtime": "",
    "nvidia-ctk": "",
    "timedatectl": "echo yes",
    "curl": 'while (($#)); do if [[ $1 == -o ]]; then echo \'echo "$INSTALL_K3S_VERSION $INSTALL_K3S_SKIP_START $*"\' >"$2"; fi; shift; done',
    "containerd": 'if [[ $1 == --version ]]; then echo "containerd example/v2 v2.2.0 abc"; else echo "SystemdCgroup = false"; fi',
    "kubeadm": 'if [[ $1 == join ]]; then cp -r "${3%/*}" "$CALLS.given"; fi',
    "sleep": "",
}


class PretendedMachine:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.programs = root / "bin"
        self.programs.mkdir()
        for folder in ("etc/modules-load.d", "etc/sysctl.d", "etc/apt/sources.list.d"):
            (root / folder).mkdir(parents=True)
        (root / "etc/fstab").write_text(
            "/dev/a / ext4 x 0 1\n/swap none swap sw 0 0\n# /old none swap sw 0 0\n"
        )
        for name, body in STANDS_IN.items():
            self.stand_in(name, body)
        (root / "calls").touch()

    def stand_in(self, name: str, body: str) -> None:
        program = self.programs / name
        program.write_text(f"#!/usr/bin/env bash\n{RECORD}{body}\n")
        program.chmod(0o755)

    def boot(self, text: str) -> subprocess.CompletedProcess[str]:
        for folder in ("/etc/", "/var/"):
            text = text.replace(folder, f"{self.root}{folder}")
        text = text.replace("export PATH=", f"export PATH={self.programs}:")
        return subprocess.run(
            ["bash", "-s"],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            env={"CALLS": str(self.root / "calls"), "PATH": "/bin"},
        )

    def calls(self) -> list[str]:
        return (self.root / "calls").read_text().splitlines()

    def log(self) -> str:
        return (self.root / "var/log/gpuas-join.log").read_text()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def machine(tmp_path: Path) -> PretendedMachine:
    return PretendedMachine(tmp_path)


def test_a_k3s_machine_writes_its_settings_installs_an_agent_and_does_not_wait_for_it(
    machine: PretendedMachine,
) -> None:
    done = machine.boot(script(JOINING, K3S, TOKEN))
    assert done.returncode == 0, done.stderr + machine.log()
    config = machine.root / "etc/rancher/k3s/config.yaml"
    assert mode(config) == 0o600
    assert yaml.safe_load(config.read_text()) == {
        "server": "https://10.0.0.1:6443",
        "token": TOKEN,
        "node-name": "home-a100-abcdefghij",
        "node-label": ["gpu-autoscaler/pool=a100", "team=ml"],
        "node-taint": ["nvidia.com/gpu=present:NoSchedule"],
        "kubelet-arg": ["provider-id=verda://home-a100-abcdefghij"],
        "default-runtime": "nvidia",
    }
    assert "v1.36.3+k3s1 true agent" in machine.log()
    assert "the driver lists 2 of 2 GPUs" in machine.log()
    assert machine.calls()[-1] == "systemctl start --no-block k3s-agent"
    assert "apt-mark hold nvidia-driver-570" in machine.calls()
    assert not [call for call in machine.calls() if call.startswith("apt-get")]


@pytest.mark.parametrize("entry", [K3S, KUBEADM], ids=["k3s", "kubeadm"])
def test_the_token_never_reaches_a_log_or_a_command_line(machine: PretendedMachine, entry: Entry) -> None:
    done = machine.boot(script(JOINING, entry, TOKEN))
    assert done.returncode == 0, done.stderr + machine.log()
    for text in (done.stdout, done.stderr, machine.log(), "\n".join(machine.calls())):
        assert "0123456789abcdef" not in text
    assert mode(machine.root / "var/log/gpuas-join.log") == 0o600


@pytest.mark.parametrize("entry", [K3S, KUBEADM], ids=["k3s", "kubeadm"])
def test_a_second_run_does_nothing(machine: PretendedMachine, entry: Entry) -> None:
    text = script(JOINING, entry, TOKEN)
    assert machine.boot(text).returncode == 0
    before = machine.calls()
    again = machine.boot(text)
    assert again.returncode == 0
    assert "has joined already" in again.stderr
    assert machine.calls() == before


def test_the_default_runtime_is_left_out_where_the_runtime_is_missing(machine: PretendedMachine) -> None:
    (machine.programs / "nvidia-container-runtime").unlink()
    machine.stand_in("apt-get", "exit 100")
    done = machine.boot(script(JOINING, K3S, TOKEN))
    assert done.returncode == 0, done.stderr
    config = yaml.safe_load((machine.root / "etc/rancher/k3s/config.yaml").read_text())
    assert "default-runtime" not in config
    assert "toolkit is missing" in done.stderr
    tries = [call for call in machine.calls() if call.startswith("apt-get")]
    assert tries
    assert all("-o DPkg::Lock::Timeout=600" in call for call in tries)


def test_missing_gpus_are_a_warning_and_no_end(machine: PretendedMachine) -> None:
    machine.stand_in("nvidia-smi", "echo 'GPU 0: A100'")
    text = script(JOINING, K3S, TOKEN).replace("SECONDS + 180", "SECONDS + 0")
    done = machine.boot(text)
    assert done.returncode == 0
    assert "warning: the driver lists 1 of 2 GPUs" in done.stderr
    assert machine.calls()[-1] == "systemctl start --no-block k3s-agent"


def test_a_server_that_never_answers_ends_the_script_at_its_deadline(machine: PretendedMachine) -> None:
    machine.stand_in("curl", "exit 7")
    text = script(JOINING, K3S, TOKEN).replace("SECONDS + 840", "SECONDS + 5")
    done = machine.boot(text)
    assert done.returncode == 1
    assert "not yet: https://10.0.0.1:6443 answers; again in 2 s" in done.stderr
    assert "given up: https://10.0.0.1:6443 answers" in done.stderr
    assert not (machine.root / "etc/rancher/k3s/config.yaml").exists()


def test_a_failing_step_is_told_by_its_line_and_leaves_no_marker(machine: PretendedMachine) -> None:
    machine.stand_in("systemctl", "[[ $1 != start ]]")
    done = machine.boot(script(JOINING, K3S, TOKEN))
    assert done.returncode != 0
    assert "failed at line" in done.stderr
    assert not list((machine.root / "var/lib/gpuas-join").glob("*.done"))


def test_a_machine_without_gpus_asks_nvidia_for_nothing(machine: PretendedMachine) -> None:
    joining = Joining(
        cluster_id="home",
        intent="abcdefghij",
        name="home-cpu-abcdefghij",
        provider_id="verda://home-cpu-abcdefghij",
        labels={},
        taints=(),
        gpus=0,
        entry="here",
    )
    assert machine.boot(script(joining, K3S, 'it\'s a "token": $(touch x)')).returncode == 0
    config = yaml.safe_load((machine.root / "etc/rancher/k3s/config.yaml").read_text())
    assert config["token"] == 'it\'s a "token": $(touch x)'
    assert (config["node-label"], config["node-taint"]) == ([], [])
    assert "default-runtime" not in config
    assert not [call for call in machine.calls() if call.startswith("nvidia")]


def test_a_kubeadm_machine_prepares_itself_and_joins_by_a_file_that_is_gone_afterwards(
    machine: PretendedMachine,
) -> None:
    entry = Entry(
        template="kubeadm", server="https://10.0.0.1:6443", secret_name="join", version="1.36.3", ca_cert=PEM
    )
    done = machine.boot(script(JOINING, entry, TOKEN))
    assert done.returncode == 0, done.stderr + machine.log()
    given = machine.root / "calls.given"
    configuration = json.loads((given / "join.yaml").read_text())
    assert configuration["nodeRegistration"]["name"] == "home-a100-abcdefghij"
    assert mode(given / "join.yaml") == 0o600
    assert json.loads((given / "discovery.conf").read_text())["kind"] == "Config"
    assert not (machine.root / "etc/kubernetes/gpuas-join").exists()
    assert (machine.root / "etc/containerd/config.toml").read_text() == "SystemdCgroup = true\n"
    assert (machine.root / "etc/fstab").read_text().splitlines()[1] == "# /swap none swap sw 0 0"
    calls = machine.calls()
    assert "nvidia-ctk runtime configure --runtime=containerd --set-as-default" in calls
    assert [call for call in calls if "kubelet=1.36.3-* kubeadm=1.36.3-*" in call]
    repository = (machine.root / "etc/apt/sources.list.d/kubernetes.list").read_text()
    assert "/v1.36/deb/" in repository


def test_an_old_containerd_is_replaced_where_the_kubelet_wants_a_newer_one(machine: PretendedMachine) -> None:
    (machine.root / "etc/os-release").write_text("VERSION_CODENAME=noble\n")
    machine.stand_in(
        "containerd",
        'if [[ $1 == --version ]]; then cat "$CALLS.version" 2>/dev/null || echo "containerd containerd.io 1.7.27 0"; fi',
    )
    machine.stand_in(
        "apt-get", 'if [[ $* == *containerd.io* ]]; then echo "containerd x v2.2.0 0" >"$CALLS.version"; fi'
    )
    done = machine.boot(script(JOINING, KUBEADM, TOKEN))
    assert done.returncode == 0, done.stderr + machine.log()
    assert "ubuntu noble stable" in (machine.root / "etc/apt/sources.list.d/docker.list").read_text()


def test_a_refused_join_is_undone_and_tried_again(machine: PretendedMachine) -> None:
    machine.stand_in(
        "kubeadm",
        'if [[ $1 == join && ! -e $CALLS.tried ]]; then touch "$CALLS.tried"; exit 1; fi; [[ $1 == reset ]] || test -s "${3}"',
    )
    done = machine.boot(script(JOINING, KUBEADM, TOKEN))
    assert done.returncode == 0, done.stderr + machine.log()
    assert [call.split()[1] for call in machine.calls() if call.startswith("kubeadm")] == [
        "join",
        "reset",
        "join",
    ]
