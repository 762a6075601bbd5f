"""Settings, token and identity put together, and every way in which that is refused."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess

import msgspec
import pytest

from controller.domain import names
from controller.domain.kube import Taint
from controller.join.entry import fault
from controller.join.joiner import Entry, ScriptJoiner
from controller.join.protocol import Joiner, JoinError, Joining, Prepared
from controller.join.variables import own_labels
from controller.planning import predict
from tests.planning.worlds import offers, pool

TOKEN = "abcdef.0123456789abcdef"
HASH = "a" * 64
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
K3S = Entry(template="k3s", server="https://10.0.0.1:6443", secret_name="join", version="v1.36.3+k3s1")
KUBEADM = Entry(
    template="kubeadm", server="https://10.0.0.1:6443", secret_name="join", version="1.36", ca_hash=HASH
)
NAME = "home-a100-abcdefghij"
JOINING = Joining(
    cluster_id="home",
    intent="abcdefghij",
    name=NAME,
    provider_id=names.provider_id(NAME),
    labels={
        "gpu-autoscaler/gpu": "a100-80gb",
        "gpu-autoscaler/location": "FIN-01",
        "gpu-autoscaler/machine": NAME,
        "gpu-autoscaler/market": "on-demand",
        "gpu-autoscaler/pool": "a100",
        "node-role.kubernetes.io/gpu": "",
        "node.kubernetes.io/instance-type": "1A100.22V",
        "team": "ml",
        "topology.kubernetes.io/region": "FIN-01",
        "topology.kubernetes.io/zone": "FIN-01",
    },
    taints=(Taint("nvidia.com/gpu", "present"), Taint(names.TAINT_STARTUP)),
    gpus=1,
    entry="here",
)


class Secrets:
    """Secrets that can be absent, forbidden or empty, and that count how often they are read."""

    def __init__(self, value: str | Exception = TOKEN) -> None:
        self.value = value
        self.reads: list[tuple[str, str]] = []
        self.now = 0.0

    async def read(self, name: str, key: str) -> str:
        self.reads.append((name, key))
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    def joiner(self, entry: Entry) -> Joiner:
        return ScriptJoiner({"here": entry}, self.read, lambda: self.now)


class Refused(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


async def made(entry: Entry, joining: Joining = JOINING, token: str = TOKEN) -> str:
    prepared = await Secrets(token).joiner(entry).prepare(joining)
    assert not prepared.script_id
    return prepared.script


def assigned(script: str, name: str) -> str:
    line = next(line for line in script.splitlines() if line.startswith(f"readonly {name}="))
    return shlex.split(line.partition("=")[2])[0]


def syntax_errors(script: str) -> str:
    return subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=20).stderr


@pytest.mark.parametrize("entry", [K3S, KUBEADM], ids=["k3s", "kubeadm"])
async def test_every_script_says_whose_it_is_and_bash_accepts_it(entry: Entry) -> None:
    script = await made(entry)
    lines = script.splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert lines[1] == names.script_mark("home", "abcdefghij")
    assert names.owned_script("home", names.script_name("home", "abcdefghij"), script) == "abcdefghij"
    told = [line for line in lines if line.startswith("# gpuas-join ")]
    assert len(told) == 1
    text = told[0].removeprefix("# gpuas-join ")
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert json.loads(text) == {
        "node": NAME,
        "provider_id": f"verda://{NAME}",
        "labels": {k: v for k, v in JOINING.labels.items() if k != "node-role.kubernetes.io/gpu"}
        | {"beta.kubernetes.io/instance-type": "1A100.22V"},
        "taints": [
            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
            {"key": names.TAINT_STARTUP, "value": "", "effect": "NoSchedule"},
        ],
    }
    assert syntax_errors(script) == ""
    assert "{{" not in script
    assert "# include" not in script


def test_every_label_that_is_planned_with_is_written_unless_the_kubelet_or_nvidia_writes_it() -> None:
    given = pool(labels={"team": "ml"})
    for offer in offers():
        joining = msgspec.structs.replace(JOINING, labels=predict.own_labels(given, offer, NAME))
        rest = set(predict.labels_of(given, offer, NAME).items()) - set(own_labels(joining).items())
        assert {key for key, _ in rest if not key.startswith("nvidia.com/")} == {
            names.LABEL_HOSTNAME,
            names.LABEL_OS,
            names.LABEL_ARCH,
            "beta.kubernetes.io/os",
            "beta.kubernetes.io/arch",
        }


def test_a_pool_may_say_the_older_name_of_the_type_itself() -> None:
    labels = JOINING.labels | {"beta.kubernetes.io/instance-type": "own"}
    assert (
        own_labels(msgspec.structs.replace(JOINING, labels=labels))["beta.kubernetes.io/instance-type"]
        == "own"
    )


@pytest.mark.parametrize("entry", [K3S, KUBEADM], ids=["k3s", "kubeadm"])
async def test_the_token_stands_in_one_assignment_and_no_script_traces_itself(entry: Entry) -> None:
    script = await made(entry)
    holding = [line for line in script.splitlines() if TOKEN in line]
    assert len(holding) == 1
    assert holding[0].startswith(("readonly TOKEN=", "readonly JOIN_CONFIGURATION="))
    assert "set -x" not in script
    assert "xtrace" not in script


async def test_a_k3s_agent_gets_lists_that_are_yaml_as_they_stand() -> None:
    script = await made(K3S)
    labels = json.loads(assigned(script, "NODE_LABELS"))
    assert f"gpu-autoscaler/machine={NAME}" in labels
    assert not [label for label in labels if "node-role" in label]
    assert json.loads(assigned(script, "NODE_TAINTS")) == [
        "nvidia.com/gpu=present:NoSchedule",
        f"{names.TAINT_STARTUP}:NoSchedule",
    ]
    assert assigned(script, "K3S_VERSION") == "v1.36.3+k3s1"
    assert 'sh "$WORK/install.sh" agent' in script
    assert "INSTALL_K3S_SKIP_START=true" in script
    assert "systemctl start --no-block k3s-agent" in script


@pytest.mark.parametrize(
    ("token", "ca_hash", "written"),
    [
        (TOKEN, "", TOKEN),
        (TOKEN, HASH, f"K10{HASH}::{TOKEN}"),
        (TOKEN, f"sha256:{HASH}", f"K10{HASH}::{TOKEN}"),
        ("password", HASH, f"K10{HASH}::node:password"),
        (f"K10{HASH}::server:password", "b" * 64, f"K10{HASH}::server:password"),
        (f"  {TOKEN}\n", "", TOKEN),
    ],
)
async def test_a_k3s_token_is_written_in_full_when_the_hash_is_known(
    token: str, ca_hash: str, written: str
) -> None:
    script = await made(msgspec.structs.replace(K3S, ca_hash=ca_hash), token=token)
    assert assigned(script, "TOKEN") == written


@pytest.mark.parametrize(
    ("version", "release", "channel"),
    [
        ("", "", ""),
        ("1.36", "", "v1.36"),
        ("v1.36", "", "v1.36"),
        ("v1.36.3", "", "v1.36"),
        ("1.36.3+k3s1", "v1.36.3+k3s1", ""),
        ("v1.36.3-rc1+k3s2", "v1.36.3-rc1+k3s2", ""),
    ],
)
async def test_k3s_is_pinned_to_a_release_or_to_a_minor(version: str, release: str, channel: str) -> None:
    script = await made(msgspec.structs.replace(K3S, version=version))
    assert (assigned(script, "K3S_VERSION"), assigned(script, "K3S_CHANNEL")) == (release, channel)


async def test_kubeadm_discovers_by_token_with_the_authoritys_hash() -> None:
    script = await made(KUBEADM)
    configuration = json.loads(assigned(script, "JOIN_CONFIGURATION"))
    assert configuration["apiVersion"] == "kubeadm.k8s.io/v1beta4"
    assert configuration["discovery"] == {
        "bootstrapToken": {
            "token": TOKEN,
            "apiServerEndpoint": "10.0.0.1:6443",
            "caCertHashes": [f"sha256:{HASH}"],
        },
        "tlsBootstrapToken": TOKEN,
    }
    registration = configuration["nodeRegistration"]
    assert registration["name"] == NAME
    assert registration["taints"][0] == {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    arguments = {each["name"]: each["value"] for each in registration["kubeletExtraArgs"]}
    assert arguments["provider-id"] == f"verda://{NAME}"
    assert "team=ml" in arguments["node-labels"].split(",")
    assert "node-role" not in arguments["node-labels"]
    assert assigned(script, "KUBERNETES_MINOR") == "1.36"


async def test_kubeadm_with_the_authority_itself_keeps_to_our_address() -> None:
    script = await made(msgspec.structs.replace(KUBEADM, ca_cert=PEM, version="v1.36.3"))
    configuration = json.loads(assigned(script, "JOIN_CONFIGURATION"))
    assert configuration["discovery"]["file"] == {
        "kubeConfigPath": "/etc/kubernetes/gpuas-join/discovery.conf"
    }
    cluster = json.loads(assigned(script, "DISCOVERY"))["clusters"][0]["cluster"]
    assert cluster["server"] == "https://10.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]).decode() == PEM
    assert assigned(script, "KUBERNETES_VERSION") == "1.36.3"


@pytest.mark.parametrize(
    ("version", "minor", "exact"),
    [("1.36", "1.36", ""), ("v1.36.3", "1.36", "1.36.3"), ("v1.36.3-vendor.7", "1.36", "")],
)
async def test_kubeadm_is_pinned_to_the_minor_and_to_a_patch_that_everybody_has(
    version: str, minor: str, exact: str
) -> None:
    script = await made(msgspec.structs.replace(KUBEADM, version=version))
    assert (assigned(script, "KUBERNETES_MINOR"), assigned(script, "KUBERNETES_VERSION")) == (minor, exact)


async def test_a_script_of_the_users_own_passes_through_without_a_token() -> None:
    secrets = Secrets()
    prepared = await secrets.joiner(Entry(startup_script_id="mine")).prepare(JOINING)
    assert prepared == Prepared(script_id="mine")
    assert secrets.reads == []


async def test_a_token_is_read_once_a_minute() -> None:
    secrets = Secrets()
    joiner = secrets.joiner(K3S)
    await joiner.prepare(JOINING)
    secrets.now = 59.9
    await joiner.prepare(JOINING)
    assert secrets.reads == [("join", "token")]
    secrets.now, secrets.value = 60.0, "new-token"
    script = (await joiner.prepare(JOINING)).script
    assert assigned(script, "TOKEN") == "new-token"
    assert len(secrets.reads) == 2


async def test_a_failed_read_is_not_remembered() -> None:
    secrets = Secrets("")
    joiner = secrets.joiner(K3S)
    with pytest.raises(JoinError):
        await joiner.prepare(JOINING)
    secrets.value = TOKEN
    assert (await joiner.prepare(JOINING)).script


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (KeyError("token"), "Secret join has no key token"),
        (Refused("not_found", "secrets join not found"), "there is no Secret join"),
        (Refused("forbidden", "no"), "may not read Secret join"),
        (Refused("unreachable", "refused\nby peer"), "Secret join could not be read: refused by peer"),
        (" \n", "key token of Secret join is empty"),
        ("two\nlines", "TOKEN holds a line break"),
    ],
)
async def test_a_token_that_cannot_be_had_is_told_in_one_line(value: str | Exception, said: str) -> None:
    with pytest.raises(JoinError, match=said) as caught:
        await Secrets(value).joiner(K3S).prepare(JOINING)
    assert "\n" not in str(caught.value)
    assert "lines" not in str(caught.value)


async def test_kubeadm_refuses_another_kind_of_token_without_repeating_it() -> None:
    with pytest.raises(JoinError, match="no kubeadm bootstrap token") as caught:
        await made(KUBEADM, token="K10password")
    assert "K10password" not in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"labels": {"a b": "c"}}, "label a b=c"),
        ({"labels": {"a": "b,c=d"}}, "label a=b,c=d"),
        ({"labels": {"a": "b\nc"}}, "label"),
        ({"taints": (Taint("a", "b c"),)}, "taint a=b c"),
        ({"taints": (Taint("a", "b", "Never"),)}, "taint a=b:Never"),
        ({"entry": "elsewhere"}, "no entry 'elsewhere'"),
        ({"name": "two\nlines"}, "cannot be rendered"),
    ],
)
async def test_what_the_kubelet_would_refuse_is_refused_before_it_costs_money(
    changed: dict[str, object], said: str
) -> None:
    with pytest.raises(JoinError, match=said):
        await made(K3S, msgspec.structs.replace(JOINING, **changed))


@pytest.mark.parametrize(
    ("entry", "changed", "said"),
    [
        (K3S, {"template": "rke"}, "template must be one of k3s, kubeadm"),
        (K3S, {"startup_script_id": "mine"}, "not both"),
        (K3S, {"server": "http://10.0.0.1:6443"}, "server must look like"),
        (K3S, {"server": "https://10.0.0.1:6443/x"}, "server must look like"),
        (K3S, {"server": "https://me@10.0.0.1"}, "server must look like"),
        (K3S, {"server": "https://10.0.0.1:six"}, "server must look like"),
        (K3S, {"server": "https://a b"}, "server must look like"),
        (K3S, {"secret_name": ""}, "name the Secret"),
        (K3S, {"version": "latest"}, "version must look like v1.36.3"),
        (K3S, {"ca_hash": "abc"}, "64 hex digits"),
        (K3S, {"ca_cert": PEM}, "k3s needs ca_hash"),
        (KUBEADM, {"version": ""}, "version must be the cluster's"),
        (KUBEADM, {"version": "1.30"}, "1.31 or newer"),
        (KUBEADM, {"version": "v1.36.3+k3s1"}, "was not made by kubeadm"),
        (KUBEADM, {"ca_hash": ""}, "needs ca_cert or ca_hash"),
        (KUBEADM, {"ca_cert": "nonsense"}, "certificate in PEM"),
    ],
)
async def test_a_wrong_entry_is_named_with_what_to_write(
    entry: Entry, changed: dict[str, str], said: str
) -> None:
    wrong = msgspec.structs.replace(entry, **changed)
    assert said in fault(wrong)
    with pytest.raises(JoinError, match=r"join\.here: "):
        await made(wrong)


@pytest.mark.parametrize("entry", [K3S, KUBEADM, Entry(startup_script_id="mine")])
def test_a_right_entry_has_no_fault(entry: Entry) -> None:
    assert fault(entry) == ""


@pytest.mark.parametrize(
    ("server", "endpoint"),
    [("https://[fd00::1]:6443/", "[fd00::1]:6443"), ("https://api.example.org", "api.example.org:443")],
)
async def test_kubeadm_is_told_host_and_port(server: str, endpoint: str) -> None:
    script = await made(msgspec.structs.replace(KUBEADM, server=server))
    discovery = json.loads(assigned(script, "JOIN_CONFIGURATION"))["discovery"]
    assert discovery["bootstrapToken"]["apiServerEndpoint"] == endpoint
