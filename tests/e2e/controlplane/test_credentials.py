"""Certificates and tokens that are replaced, or end, while the controller runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client
from kubernetes.client.exceptions import UnauthorizedException

from tests.e2e.controlplane.pki import NAME, Authority
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.proxy import Proxy
from tests.e2e.controlplane.scene import NAMESPACE, Scene, running, runs, until
from tests.e2e.controlplane.work import PROMPT, machine_for

pytestmark = pytest.mark.usefixtures("prompt_kubelets")


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[Proxy]:
    with Proxy(plane.port) as made:
        yield made


def test_a_new_certificate_of_the_server_and_then_of_its_authority(
    scene: Scene, plane: ControlPlane, proxy: Proxy
) -> None:
    known = scene.home / "ca.crt"
    known.write_bytes(plane.authority.certificate)
    cluster = {"certificate-authority": str(known), "tls-server-name": NAME}
    with running(scene.controller(PROMPT, kubeconfig=scene.kubeconfig_at(proxy.port, cluster))):
        machine_for(scene, "first")
        _shows_anew(plane, plane.authority)
        proxy.cut()
        machine_for(scene, "second")
        plane.authority = Authority(plane.folder / "another-authority")
        _shows_anew(plane, plane.authority)
        proxy.cut()
        scene.pod("third", 1)
        time.sleep(3)  # it does not trust the server, so nothing is bought
        assert scene.state()["creates"] == 2
        _replace(known, plane.authority.certificate.decode())
        until("it runs", lambda: runs(scene, "third"))
        assert scene.state()["creates"] == 3


@pytest.mark.long
def test_a_token_that_is_replaced_before_it_ends_and_one_that_ends_before_it_is_replaced(
    scene: Scene, plane: ControlPlane
) -> None:
    file = scene.home / "token"
    tokens = {name: _token(scene, name) for name in ("first", "second", "third")}
    _replace(file, tokens["first"])
    kubeconfig = scene.kubeconfig_at(plane.port, user={"tokenFile": str(file)})
    try:
        with running(scene.controller(PROMPT, kubeconfig=kubeconfig)):
            machine_for(scene, "first")
            _replace(file, tokens["second"])
            _end(scene, plane, "first", tokens["first"])
            machine_for(scene, "second")
            _end(scene, plane, "second", tokens["second"])
            scene.pod("third", 1)
            time.sleep(3)
            assert scene.state()["creates"] == 2
            _replace(file, tokens["third"])
            until("it runs", lambda: runs(scene, "third"))
            assert scene.state()["creates"] == 3
    finally:
        scene.core.delete_namespaced_secret("third", NAMESPACE)


def _shows_anew(plane: ControlPlane, authority: Authority) -> None:
    before = plane.shown_certificate()
    authority.issue(plane.folder)
    until("the server shows it", lambda: plane.shown_certificate() != before)


def _replace(file: Path, text: str) -> None:
    """At once, as the kubelet replaces what it projects."""
    other = file.with_suffix(".new")
    other.write_text(text)
    other.replace(file)


def _token(scene: Scene, name: str) -> str:
    """Of the controller's own account, for as long as a Secret of this name exists."""
    secret = scene.core.create_namespaced_secret(NAMESPACE, {"metadata": {"name": name}})
    accounts = [each.metadata.name for each in scene.core.list_namespaced_service_account(NAMESPACE).items]
    bound = client.V1BoundObjectReference(api_version="v1", kind="Secret", name=name, uid=secret.metadata.uid)
    answer = scene.core.create_namespaced_service_account_token(
        next(each for each in accounts if each != "default"),
        NAMESPACE,
        client.AuthenticationV1TokenRequest(
            spec=client.V1TokenRequestSpec(audiences=[], bound_object_ref=bound)
        ),
    )
    return str(answer.status.token)


def _end(scene: Scene, plane: ControlPlane, name: str, token: str) -> None:
    """The API server remembers for ten seconds that a token was good."""
    settings = client.Configuration(host=plane.url)
    settings.ssl_ca_cert = str(plane.certificate)
    settings.api_key = {"authorization": f"Bearer {token}"}

    def refused() -> bool:
        try:
            client.AuthorizationV1Api(client.ApiClient(settings)).create_self_subject_access_review(
                {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
            )
        except UnauthorizedException:
            return True
        return False

    scene.core.delete_namespaced_secret(name, NAMESPACE)
    until("it is refused", refused)
