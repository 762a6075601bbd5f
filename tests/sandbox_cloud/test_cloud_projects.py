"""Credentials belong to a project, and everything that a client can list, spend or use up belongs to one too."""

from __future__ import annotations

from typing import Any

import pytest

from .world import ORDER, Cloud, refusal

TWO = {"projects": {"red": "r:1", "blue": "b:2"}}


class Client:
    def __init__(self, cloud: Cloud, client: str, secret: str = "") -> None:
        self.cloud = cloud
        grant = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret or "x"}
        answer = cloud.checked("POST", "/oauth2/token", grant, {})
        assert answer.status == 200, answer.body
        self.tokens = answer.json()
        self.headers = {"Authorization": f"Bearer {self.tokens['access_token']}"}

    def send(self, method: str, path: str, body: Any = b"") -> Any:
        return self.cloud.checked(method, path, body, self.headers)

    def get(self, path: str) -> Any:
        answer = self.send("GET", path)
        assert answer.status == 200, answer.body
        return answer.json()


def test_a_project_sees_only_its_own_things() -> None:
    cloud = Cloud(**TWO)
    red, blue = Client(cloud, "r", "1"), Client(cloud, "b", "2")
    instance_id = red.send("POST", "/instances", ORDER).body.decode()
    script_id = red.send("POST", "/scripts", {"name": "a", "script": "b"}).body.decode()
    cloud.wait(10)
    volume_id = red.get(f"/instances/{instance_id}")["os_volume_id"]
    for path in ("/instances", "/volumes", "/scripts", "/journal/compute"):
        assert (len(red.get(path)) > 0, blue.get(path)) == (True, []), path
    for path in (f"/instances/{instance_id}", f"/volumes/{volume_id}", f"/scripts/{script_id}"):
        assert blue.send("GET", path).status == 404
    delete = {"action": "delete", "id": instance_id}
    assert blue.send("PUT", "/instances", delete).status == 404
    assert cloud.get("/_sandbox/state")["instances"] == []
    assert [one["id"] for one in cloud.get("/_sandbox/state?project=red")["instances"]] == [instance_id]


def test_each_project_pays_for_itself_and_runs_out_alone() -> None:
    cloud = Cloud(**TWO)
    red, blue = Client(cloud, "r", "1"), Client(cloud, "b", "2")
    ids = [one.send("POST", "/instances", ORDER).body.decode() for one in (red, blue)]
    cloud.control("PUT", "settings?project=red", {"balance": 1})
    cloud.wait(3000)
    assert red.get(f"/instances/{ids[0]}")["status"] == "discontinued"
    assert blue.get(f"/instances/{ids[1]}")["status"] == "running"
    assert red.get("/balance")["amount"] == 0
    assert blue.get("/balance")["amount"] == pytest.approx(10_000 - 1.0872, abs=1e-3)
    bills = [cloud.get(f"/_sandbox/bill?project={name}")["total"] for name in ("default", "red", "blue")]
    assert bills == [0, pytest.approx(1, abs=0.2), pytest.approx(1.0872, abs=1e-3)]


def test_quotas_are_per_project_and_stock_is_shared() -> None:
    cloud = Cloud(**TWO, instance_quota=1)
    cloud.control("PUT", "stock", [{"instance_type": "1A100.22V", "location": "FIN-03", "count": 2}])
    red, blue = Client(cloud, "r", "1"), Client(cloud, "b", "2")
    assert [one.send("POST", "/instances", ORDER).status for one in (red, red, blue)] == [202, 400, 202]
    cloud.control("PUT", "settings", {"instance_quota": 9})
    assert blue.send("POST", "/instances", ORDER).status == 503


def test_limits_are_per_project() -> None:
    cloud = Cloud(**TWO, rate_limits=True, endpoint_limit=1)
    red, blue = Client(cloud, "r", "1"), Client(cloud, "b", "2")
    assert [one.send("GET", "/balance").status for one in (red, red, blue)] == [200, 429, 200]


def test_every_client_may_be_a_project_of_its_own() -> None:
    cloud = Cloud(project_per_client=True)
    for name in ("one", "two"):
        Client(cloud, name).send("POST", "/instances", ORDER)
    seen = {row["project"]: row["creates"] for row in cloud.get("/_sandbox/projects")}
    assert seen == {"default": 0, "one": 1, "two": 1}


def test_without_projects_all_clients_share_the_first_one() -> None:
    cloud = Cloud()
    Client(cloud, "one").send("POST", "/instances", ORDER)
    assert len(Client(cloud, "two").get("/instances")) == 1


def test_a_wrong_secret_opens_no_project() -> None:
    cloud = Cloud(**TWO, credentials="id:secret")
    grant = {"grant_type": "client_credentials", "client_id": "r", "client_secret": "2"}
    for client, secret in (("r", "2"), ("id", "1"), ("other", "1")):
        answer = cloud.send(
            "POST", "/oauth2/token", grant | {"client_id": client, "client_secret": secret or "x"}
        )
        assert refusal(answer)[:2] == (401, "unauthorized_request")


def test_a_refresh_token_leads_back_to_its_project() -> None:
    cloud = Cloud(**TWO)
    red = Client(cloud, "r", "1")
    red.send("POST", "/instances", ORDER)
    refresh = {"grant_type": "refresh_token", "refresh_token": red.tokens["refresh_token"]}
    red.headers = {
        "Authorization": f"Bearer {cloud.send('POST', '/oauth2/token', refresh).json()['access_token']}"
    }
    assert len(red.get("/instances")) == 1


def test_events_happen_to_the_project_that_is_named() -> None:
    cloud = Cloud(**TWO)
    plant = {"event": "plant", "things": [{"instance": {"hostname": "stranger"}}]}
    cloud.control("POST", "events?project=red", plant)
    cloud.control("PUT", "scenario", [{**plant, "project": "blue", "at_s": 5}])
    cloud.wait(10)
    red, blue = Client(cloud, "r", "1"), Client(cloud, "b", "2")
    assert [len(one.get("/instances")) for one in (red, blue)] == [1, 1]
    assert cloud.get("/instances") == []
