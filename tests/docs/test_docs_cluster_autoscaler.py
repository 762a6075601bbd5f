"""The examples beside the page on cluster-autoscaler are ones that work."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

from controller.config.load import load
from controller.config.settings import Settings

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = DOCS / "cluster-autoscaler"


def test_every_manifest_is_one() -> None:
    for path in EXAMPLES.glob("*.yaml"):
        found = [each for each in yaml.safe_load_all(path.read_text()) if each]
        assert found
        if path.name != "values.yaml":
            assert all({"apiVersion", "kind", "metadata"} <= set(each) for each in found), path.name


def test_the_values_hold_settings_that_are_accepted() -> None:
    values = yaml.safe_load((EXAMPLES / "values.yaml").read_text())
    assert load(None, {}, text=yaml.safe_dump(values["config"])).settings.pools[0].name == "a100"


def test_names_agree_between_the_files() -> None:
    values = yaml.safe_load((EXAMPLES / "values.yaml").read_text())
    certificates = {
        each["metadata"]["name"]: each["spec"]
        for each in yaml.safe_load_all((EXAMPLES / "cert-manager.yaml").read_text())
        if each["kind"] == "Certificate"
    }
    script = (EXAMPLES / "certificates.sh").read_text()
    deployment = (EXAMPLES / "deployment.yaml").read_text()
    host = re.search(r"address: (\S+):(\d+)", deployment)
    assert host is not None
    server = certificates["externalgrpc-server"]
    assert host[1] in server["dnsNames"]
    assert int(host[2]) == values["externalgrpc"]["port"] == 8086
    assert server["secretName"] == values["externalgrpc"]["tlsSecret"]
    assert certificates["externalgrpc-client"]["dnsNames"] == values["externalgrpc"]["allowedNames"]
    for name in (*server["dnsNames"], *values["externalgrpc"]["allowedNames"], server["secretName"]):
        assert name in script
    assert (
        subprocess.run(["sh", "-n", str(EXAMPLES / "certificates.sh")], check=False, timeout=30).returncode
        == 0
    )


def test_every_setting_that_the_page_names_is_one() -> None:
    section = Settings.model_fields["externalgrpc"].annotation
    assert section is not None
    for key in re.findall(r"`externalgrpc\.(\w+)", (DOCS / "cluster-autoscaler.md").read_text()):
        assert key in section.model_fields, key


def test_every_scenario_that_the_page_on_tests_names_is_one() -> None:
    folder = DOCS.parent / "tests" / "e2e" / "controlplane"
    there = {
        name
        for path in folder.glob("test_cluster_autoscaler*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    page = (DOCS / "testing.md").read_text()
    section = page.partition("## cluster-autoscaler at the wheel")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", section))
    assert len(named) > 20
    assert named <= there
