"""The judge of the sandbox cluster: the same questions to it and to a real API server, answers compared.

A difference is a mistake of the sandbox unless `docs/sandbox-cluster.md` tells why it is wanted, and a
difference told there has to exist.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest
import yaml

from tests.e2e.controlplane.conformance import documented, reader
from tests.e2e.controlplane.conformance.both import Both
from tests.e2e.controlplane.conformance.documented import Row
from tests.e2e.controlplane.conformance.play import Difference
from tests.e2e.controlplane.conformance.probe import Probe
from tests.e2e.controlplane.conformance.side import Side
from tests.e2e.controlplane.conformance.themes import THEMES
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.programs import PROGRAM, started

CASES = [(theme, probe) for theme, probes in THEMES.items() for probe in probes]
ROWS = documented.rows()
# Pods on hand-made nodes stay as they were bound, as without a kubelet, and time runs as it does there.
KNOBS = {"adopt_nodes": False}
pytestmark = pytest.mark.long  # all of them together


def token_of(plane: ControlPlane) -> str:
    token: str = yaml.safe_load(plane.kubeconfig.read_text())["users"][0]["user"]["token"]
    return token


def told(side: Side, path: str, body: object) -> None:
    answer = side.ask("PUT", path, body)
    assert answer.code == 200, answer.body


def forget(plane: ControlPlane, sandbox: Side) -> None:
    """Both forget their past, as an API server makes etcd do every five minutes."""
    newest = Side(plane.url, token_of(plane), str(plane.certificate))
    version = newest.ask("GET", "/api/v1/namespaces?limit=1").body["metadata"]["resourceVersion"]
    newest.close()
    url = f"http://127.0.0.1:{plane._etcd}/v3/kv/compaction"  # its own gateway, in JSON
    request = Request(url, data=json.dumps({"revision": version}).encode(), method="POST")
    with urlopen(request, timeout=10) as answer:  # noqa: S310
        answer.read()
    assert sandbox.ask("POST", "/_sandbox/compact", {}).code == 200


@pytest.fixture(scope="module")
def both(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    home = tmp_path_factory.mktemp("conformance")
    (home / "knobs.yaml").write_text(yaml.safe_dump(KNOBS))
    admin, tag = token_of(plane), secrets.token_hex(3)
    command = [
        PROGRAM,
        "sandbox",
        "cluster",
        "--port",
        "0",
        "--speed",
        "1",
        "--settings",
        str(home / "knobs.yaml"),
    ]
    with started(command, home) as cluster:
        real, sandbox = Side(plane.url, admin, str(plane.certificate)), Side(cluster.line(), admin)
        made = Both(real, sandbox, tag)
        try:
            space, issued = made.space("access"), secrets.token_hex(16)
            told(sandbox, "/_sandbox/settings", reader.knobs(issued, admin, space))
            made.extra = (reader.real(real, space), {"reader": issued, "user": reader.user_in(space)})
            forget(plane, sandbox)
            made.begin((theme, probe) for theme, probe in CASES if probe.slow)
            yield made
        finally:
            made.leave()
            real.close()
            sandbox.close()


def shown(found: list[Difference]) -> str:
    return "\n".join(str(each) for each in found)


@pytest.mark.parametrize(("theme", "probe"), CASES, ids=[f"{theme}/{probe.name}" for theme, probe in CASES])
def test_the_sandbox_answers_as_the_api_server_does(both: Both, theme: str, probe: Probe) -> None:
    found = both.differences(theme, probe)
    surprising = [each for each in found if not any(row.covers(theme, each) for row in ROWS)]
    assert not surprising, f"{theme}/{probe.name}:\n{shown(surprising)}"


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.probe} {row.field}" for row in ROWS])
def test_a_difference_that_is_documented_is_still_there(both: Both, row: Row) -> None:
    assert any(
        row.covers(theme, each)
        for theme, probe in CASES
        if row.may_concern(theme, probe.name)
        for each in both.differences(theme, probe)
    )
