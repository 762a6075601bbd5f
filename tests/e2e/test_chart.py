"""The chart under real helm: what it renders, what it refuses, and the rights it asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.cluster.rights import JOIN_TOKENS, RIGHTS
from tests.e2e.programs import PROGRAM, ROOT, started
from tests.e2e.programs import run as run_program

CHART = str(ROOT / "charts" / "verda-gpu-autoscaler")
SETTINGS: dict[str, Any] = {
    "pools": [{"name": "a100", "instance_types": ["1A100.22V"], "max": 2, "join": "k3s"}],
    "limits": {"price_per_month": 3000000, "price_per_hour": 3.5},
    "join": {
        "k3s": {
            "template": "k3s",
            "server": "https://10.0.0.1:6443",
            "token_from": {"secret": {"name": "join-token", "key": "token"}},
        }
    },
}
NODE_GROUPS = [
    {"name": "a", "gpuCount": 4, "scaleUpEndpoint": "http://a/on", "scaleDownEndpoint": "http://a/off"}
]
Rules = set[tuple[str, str, str, str]]  # group, resource, verb, resource name


class Helm:
    def __init__(self, program: str, home: Path) -> None:
        self.program = program
        self.home = home

    def __call__(self, verb: str, values: dict[str, Any], *more: str) -> tuple[int, str, str]:
        file = self.home / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        release = [] if verb == "lint" else ["release"]
        done = run_program(
            [self.program, verb, *release, CHART, "-f", str(file), "-n", "gpu", *more], self.home
        )
        return done.returncode, done.stdout, done.stderr

    def objects(self, values: dict[str, Any], *more: str) -> dict[str, dict[str, Any]]:
        code, out, err = self("template", values, *more)
        assert code == 0, err
        found = [each for each in yaml.safe_load_all(out) if each]
        by_kind = {each["kind"]: each for each in found}
        assert len(by_kind) == len(found)
        return by_kind

    def refusal(self, values: dict[str, Any]) -> str:
        code, _, err = self("template", values)
        assert code != 0
        return err


@pytest.fixture
def helm(helm_bin: str, tmp_path: Path) -> Helm:
    return Helm(helm_bin, tmp_path)


def given(**more: Any) -> dict[str, Any]:
    return {"existingSecret": "verda", "config": SETTINGS, **more}


def own() -> dict[str, Any]:
    return {"credentials": {"clientId": "an-id", "clientSecret": "a-secret"}, "config": SETTINGS}


def container(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    only: dict[str, Any]
    (only,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    return only


def test_lint_has_nothing_against_the_chart(helm: Helm) -> None:
    code, out, err = helm("lint", own(), "--strict")
    assert code == 0, out + err


def test_credentials_of_the_values_become_a_secret_that_the_program_reads(helm: Helm) -> None:
    objects = helm.objects(own())
    assert objects["Secret"]["stringData"] == {"client-id": "an-id", "client-secret": "a-secret"}
    name = objects["Secret"]["metadata"]["name"]
    read = {e["name"]: e.get("valueFrom", {}).get("secretKeyRef") for e in container(objects)["env"]}
    assert read["VERDA_CLIENT_ID"] == {"name": name, "key": "client-id"}
    assert read["VERDA_CLIENT_SECRET"] == {"name": name, "key": "client-secret"}


def test_an_existing_secret_is_used_and_none_is_made(helm: Helm) -> None:
    objects = helm.objects(given())
    assert "Secret" not in objects
    read = {e["name"]: e.get("valueFrom", {}).get("secretKeyRef") for e in container(objects)["env"]}
    assert read["VERDA_CLIENT_SECRET"] == {"name": "verda", "key": "client-secret"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"config": SETTINGS, "credentials": {"clientId": "an-id"}}, "needs both clientId and clientSecret"),
        ({**own(), "existingSecret": "verda"}, "either existingSecret or credentials"),
        ({**own(), "config": "pools: ["}, "config is not YAML"),
        ({**own(), "confg": {}}, "confg"),
        (given(serviceAccount={"create": False}), "serviceAccount.name is needed"),
        (
            given(driver="externalgrpc", externalgrpc={"insecure": True, "tlsSecret": "s"}),
            "either externalgrpc.insecure",
        ),
        (
            given(driver="externalgrpc", externalgrpc={"insecure": True, "allowedNames": ["ca"]}),
            "nobody proves a name",
        ),
        ({"config": {"machines": []}, "nodeGroups": NODE_GROUPS}, "either nodeGroups or config.machines"),
        ({"config": "machines:\n", "nodeGroups": NODE_GROUPS}, "either nodeGroups or config.machines"),
    ],
)
def test_what_contradicts_itself_is_refused_with_what_to_do(
    helm: Helm, values: dict[str, Any], said: str
) -> None:
    assert said in helm.refusal(values)


def test_the_bare_chart_renders_and_lints(helm: Helm) -> None:
    assert container(helm.objects({}))["args"][0] == "run"
    code, out, err = helm("lint", {}, "--strict")
    assert code == 0, out + err


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        ({}, {"config.pools is empty", "no API credentials"}),
        ({"config": SETTINGS}, {"no API credentials"}),
        ({"config": {}, "existingSecret": "verda"}, {"config.pools is empty"}),
        (own(), set()),
    ],
)
def test_what_is_still_missing_is_told_after_the_installation(
    helm: Helm, values: dict[str, Any], warned: set[str]
) -> None:
    kubeconfig = str(helm.home / "kubeconfig")  # helm asks for a cluster even here
    with started([PROGRAM, "sandbox", "cluster", "--kubeconfig", kubeconfig], helm.home) as cluster:
        cluster.line()
        code, out, err = helm("install", values, "--dry-run=client", "--kubeconfig", kubeconfig)
    assert code == 0, err
    notes = out.partition("NOTES:")[2]
    assert "The controller runs in namespace gpu" in notes
    assert {
        line.partition(": ")[2].partition(",")[0] for line in notes.splitlines() if "WARNING" in line
    } == warned


def test_switched_machines_alone_need_no_credentials(helm: Helm) -> None:
    machine = {
        "name": "m1",
        "gpu_count": 1,
        "scale_up_endpoint": "http://on",
        "scale_down_endpoint": "http://off",
    }
    objects = helm.objects({"config": {"machines": [machine]}})
    assert {each["name"] for each in container(objects)["env"]} == {
        "POD_NAME",
        "POD_NAMESPACE",
        "DEPLOYMENT_NAME",
    }


GROUPS = [
    {
        "name": "gpu-worker-1",
        "gpuCount": 4,
        "scaleUpEndpoint": "http://power-api/gpu-worker-1/start",
        "scaleDownEndpoint": "http://power-api/gpu-worker-1/stop",
    },
    {
        "name": "gpu-worker-2",
        "gpuCount": "8",
        "scaleUpEndpoint": "http://p/on",
        "scaleDownEndpoint": "http://p/off",
    },
]


@pytest.mark.parametrize(
    "config", [{}, {"scale_down": {"cooldown": "5m"}}, "scale_down: {cooldown: 5m}  # a file\n", ""]
)
def test_node_groups_of_the_webhook_controllers_chart_are_machines(helm: Helm, config: Any) -> None:
    text = helm.objects({"nodeGroups": GROUPS, "config": config})["ConfigMap"]["data"]["config.yaml"]
    found = yaml.safe_load(text)
    assert [(m["name"], m["gpu_count"]) for m in found["machines"]] == [
        ("gpu-worker-1", 4),
        ("gpu-worker-2", 8),
    ]
    assert found["machines"][0]["scale_down_endpoint"] == "http://power-api/gpu-worker-1/stop"
    assert found.get("scale_down") == ({"cooldown": "5m"} if config else None)
    file = helm.home / "config.yaml"
    file.write_text(text)
    done = run_program([PROGRAM, "config", "check", "--config", str(file)], helm.home)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"nodeGroups": GROUPS, "config": {"machines": [{"name": "x"}]}},
            "either nodeGroups or config.machines",
        ),
        ({"nodeGroups": GROUPS, "config": "machines: [{name: x}]"}, "either nodeGroups or config.machines"),
        ({"nodeGroups": [{"name": "x"}]}, "gpuCount"),
        ({"nodeGroups": [{**GROUPS[0], "gpuCount": 0}]}, "gpuCount"),
        ({"nodeGroups": [{**GROUPS[0], "price": 1}]}, "price"),
    ],
)
def test_half_a_node_group_is_refused(helm: Helm, values: dict[str, Any], said: str) -> None:
    assert said in helm.refusal(values)


def test_the_secrets_of_webhooks_may_be_read_and_no_others(helm: Helm) -> None:
    def secret(name: str) -> dict[str, Any]:
        return {"secret": {"name": name, "key": "k"}}

    webhooks = {
        "a": {"auth": {"basic": {"username": "u", "password": secret("s1")}, "hmac": {"key": secret("s2")}}},
        "b": {
            "auth": {"bearer": secret("s3"), "header": {"name": "X-Key", "value": secret("s4")}},
            "tls": {"ca": secret("s5"), "certificate": secret("s6"), "key": secret("s6")},
        },
        "c": {"auth": {"bearer": {"file": "/etc/token"}}},
        "d": None,
    }
    rules = helm.objects(given(config={**SETTINGS, "webhooks": webhooks}))["Role"]["rules"]
    (secrets,) = [rule for rule in rules if "secrets" in rule["resources"]]
    assert secrets["resourceNames"] == ["join-token", "s1", "s2", "s3", "s4", "s5", "s6"]
    assert secrets["verbs"] == ["get"]


def test_the_pod_is_restricted_probed_and_stays_off_the_machines_it_may_remove(helm: Helm) -> None:
    objects = helm.objects(given())
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    only = container(objects)
    assert objects["Deployment"]["spec"]["replicas"] == 1
    assert pod["terminationGracePeriodSeconds"] == 60
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert only["args"] == ["run", "--config", "/etc/verda-gpu-autoscaler/config.yaml"]
    assert only["ports"] == [{"name": "http", "containerPort": 8080}]
    assert only["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert only["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert pod["enableServiceLinks"] is False
    assert "gpu-autoscaler/machine" in json.dumps(pod["affinity"])


def test_only_settings_that_cannot_change_while_running_restart_the_pod(helm: Helm) -> None:
    def checksum(values: dict[str, Any]) -> str:
        pod = helm.objects(values)["Deployment"]["spec"]["template"]
        return str(pod["metadata"]["annotations"]["checksum/config"])

    changed = {**SETTINGS, "limits": {"machines": 1}}
    another = {**SETTINGS, "cluster_id": "another"}
    assert checksum(given()) == checksum(given(config=changed))
    assert checksum(given()) != checksum(given(config=another))


def test_the_settings_are_passed_on_unchanged_and_the_program_accepts_them(helm: Helm) -> None:
    text = helm.objects(given())["ConfigMap"]["data"]["config.yaml"]
    assert yaml.safe_load(text) == SETTINGS
    file = helm.home / "config.yaml"
    file.write_text(text)
    done = run_program([PROGRAM, "config", "check", "--config", str(file)], helm.home)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_whole_settings_file_is_passed_on_verbatim(helm: Helm) -> None:
    text = "# why two\n" + yaml.safe_dump(SETTINGS)
    file = helm.home / "settings.yaml"
    file.write_text(text)
    objects = helm.objects({"existingSecret": "verda"}, "--set-file", f"config={file}")
    assert objects["ConfigMap"]["data"]["config.yaml"].strip() == text.strip()
    assert ("", "secrets", "get", "join-token") in rules(objects["Role"])


def rules(role: dict[str, Any]) -> Rules:
    return {
        (group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def wanted(*, own_namespace: bool, secrets: tuple[str, ...]) -> Rules:
    found: Rules = set()
    for right in RIGHTS:
        if right.own_namespace != own_namespace:
            continue
        names = secrets if right.only_for == JOIN_TOKENS else (right.name,)
        resource = right.plural + (f"/{right.subresource}" if right.subresource else "")
        found |= {(right.group, resource, right.verb, name) for name in names}
    return found


@pytest.mark.parametrize("secrets", [(), ("join-token",), ("a", "b")])
def test_the_roles_grant_exactly_what_the_program_needs(helm: Helm, secrets: tuple[str, ...]) -> None:
    entries = {
        f"entry-{name}": {"template": "k3s", "token_from": {"secret": {"name": name, "key": "token"}}}
        for name in secrets
    }
    own_script = {"mine": {"startup_script_id": "an-id"}}
    objects = helm.objects(given(config={**SETTINGS, "join": {**entries, **own_script}}))
    assert rules(objects["ClusterRole"]) == wanted(own_namespace=False, secrets=secrets)
    assert rules(objects["Role"]) == wanted(own_namespace=True, secrets=secrets)
    assert objects["Role"]["metadata"]["namespace"] == "gpu"


def test_the_roles_are_bound_to_the_pods_own_account(helm: Helm) -> None:
    objects = helm.objects(given())
    account = objects["ServiceAccount"]["metadata"]
    assert objects["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"] == account["name"]
    for binding, role in (("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")):
        assert objects[binding]["roleRef"]["kind"] == role
        assert objects[binding]["roleRef"]["name"] == objects[role]["metadata"]["name"]
        assert objects[binding]["subjects"] == [
            {"kind": "ServiceAccount", "name": account["name"], "namespace": "gpu"}
        ]


def test_the_service_can_be_left_out(helm: Helm) -> None:
    assert helm.objects(given())["Service"]["spec"]["ports"][0]["targetPort"] == "http"
    assert "Service" not in helm.objects(given(service={"enabled": False}))


def test_cluster_autoscaler_is_served_over_mutual_tls(helm: Helm) -> None:
    more = {
        "driver": "externalgrpc",
        "externalgrpc": {"tlsSecret": "grpc-tls", "allowedNames": ["one", "two"]},
    }
    found = helm.objects(given(**more))
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == [
        "run",
        "--config=/etc/verda-gpu-autoscaler/config.yaml",
        "--driver=externalgrpc",
    ]
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert values["GPU_AUTOSCALER_EXTERNALGRPC__TLS__CERT"] == "/etc/externalgrpc-tls/tls.crt"
    assert values["GPU_AUTOSCALER_EXTERNALGRPC__ALLOWED_NAMES"] == "one,two"
    assert {"name": "externalgrpc-tls", "secret": {"secretName": "grpc-tls"}} in pod["volumes"]
    assert [port["name"] for port in found["Service"]["spec"]["ports"]] == ["http", "grpc"]


def test_without_certificates_it_is_served_only_by_name(helm: Helm) -> None:
    assert "externalgrpc.tlsSecret: missing" in helm.refusal(given(driver="externalgrpc"))
    found = helm.objects(given(driver="externalgrpc", externalgrpc={"insecure": True}))
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "--insecure" in container["args"]
    assert "grpc" not in str(helm.objects(given())["Service"])
