"""Credentials and the transport, over real sockets where sockets matter."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import ssl
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from controller.cluster import credentials as module
from controller.cluster import rights, sessions
from controller.cluster.connection import Connection
from controller.cluster.credentials import Credentials
from controller.cluster.protocol import ClusterError
from tests.cluster.scripted import Clock

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
SECRET = "s3cr3t-t0k3n"


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.05)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def kubeconfig(path: Path, server: str, cluster: Any = (), users: int = 1, **user: Any) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server, **dict(cluster)}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "users": [{"name": "u", "user": user}][:users],
    }
    path.write_text(json.dumps(config))
    return str(path)


def credentials(path: str, clock: Clock | None = None, **more: Any) -> Credentials:
    clock = clock or Clock()
    return Credentials(kubeconfig=path, clock=clock, wall=clock.wall, **more)


@asynccontextmanager
async def connected(tmp_path: Path, handler: Handler, **user: Any) -> AsyncIterator[Connection]:
    async with served(handler) as url:
        connection = Connection(credentials(kubeconfig(tmp_path / "config", url, **user)))
        try:
            yield connection
        finally:
            await connection.close()


# ---- the library without its models


def in_a_fresh_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_configuration_is_loaded_without_the_models_and_leaves_no_trace() -> None:
    out = in_a_fresh_process(
        """
        import sys
        from controller.cluster.kubelibrary import library
        found = library()
        assert found.light
        assert library() is found
        assert not [name for name in sys.modules if name.startswith("kubernetes_asyncio")]
        import kubernetes_asyncio
        from kubernetes_asyncio import client, config
        assert client.V1Pod and client.ApiClient is not object and config.load_kube_config
        assert client.Configuration is not found.Configuration
        print("whole")
        """
    )
    assert out == "whole\n"


def test_a_package_that_is_there_already_is_used_as_it_is() -> None:
    in_a_fresh_process(
        """
        from kubernetes_asyncio import client
        from controller.cluster.kubelibrary import library
        found = library()
        assert not found.light and found.Configuration is client.Configuration
        """
    )


def test_an_unknown_layout_of_the_library_falls_back_to_the_ordinary_import() -> None:
    in_a_fresh_process(
        """
        import importlib, sys
        real = importlib.import_module
        def strange(name, *more):
            if name.endswith("kube_config") and not hasattr(sys.modules["kubernetes_asyncio"], "__project__"):
                raise ImportError("moved")
            return real(name, *more)
        importlib.import_module = strange
        from controller.cluster.kubelibrary import library
        found = library()
        assert not found.light and found.KubeConfigLoader
        import kubernetes_asyncio
        assert kubernetes_asyncio.client.V1Pod
        """
    )


# ---- credentials


async def test_a_kubeconfig_gives_host_and_token(tmp_path: Path) -> None:
    access = await credentials(kubeconfig(tmp_path / "config", "http://h:1/k8s/", token=SECRET)).current()
    assert (access.host, access.authorization) == ("http://h:1/k8s", f"Bearer {SECRET}")
    assert SECRET not in repr(access)


async def test_an_end_that_comes_while_credentials_are_read_is_not_lost(tmp_path: Path) -> None:
    """SIGTERM in that moment of the start left the program running until somebody killed it."""
    path = kubeconfig(tmp_path / "config", "https://10.0.0.1:6443", token=SECRET)
    for steps in range(10):
        reading = asyncio.create_task(credentials(path).current())
        for _ in range(steps):
            await asyncio.sleep(0)
        late = reading.done()
        reading.cancel()
        await asyncio.wait({reading})
        assert reading.cancelled() or late, f"after {steps} steps"


async def test_the_named_file_wins_over_kubeconfig_over_the_service_account_over_home(tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("inside\n")
    (account / "ca.crt").write_text("CA")
    named, by_variable = kubeconfig(tmp_path / "a", "http://a"), kubeconfig(tmp_path / "b", "http://b")
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube" / "config", "http://home")
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    more = {"service_account": str(account)}
    assert (
        await credentials(named, environ={"KUBECONFIG": by_variable}, **more).current()
    ).host == "http://a"
    assert (
        await credentials("", environ=inside | {"KUBECONFIG": by_variable}, **more).current()
    ).host == "http://b"
    found = await credentials("", environ=inside, **more).current()
    assert (found.host, found.authorization) == ("https://10.0.0.1:443", "Bearer inside")
    assert (await credentials("", environ={"HOME": str(tmp_path)}, **more).current()).host == "http://home"


async def test_a_rotated_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    token, clock = tmp_path / "token", Clock()
    token.write_text("one\n")
    found = credentials(kubeconfig(tmp_path / "config", "http://h", tokenFile=str(token)), clock)
    assert (await found.current()).authorization == "Bearer one"
    token.write_text("two\n")
    clock.pass_(59)
    assert (await found.current()).authorization == "Bearer one"
    clock.pass_(2)
    assert (await found.current()).authorization == "Bearer two"


async def test_a_file_that_vanishes_for_a_moment_does_not_take_the_credentials_away(tmp_path: Path) -> None:
    path, clock = kubeconfig(tmp_path / "config", "http://h", token="t"), Clock()
    found = credentials(path, clock)
    await found.current()
    os.unlink(path)
    clock.pass_(100)
    assert (await found.current()).authorization == "Bearer t"


async def test_a_plugin_that_hangs_holds_nobody_up_while_the_token_still_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the lease would be lost to it, minutes before the token ends."""
    monkeypatch.setattr(module, "LOOK_PATIENCE", 0.01)
    token, clock, answers = tmp_path / "token", Clock(), asyncio.Event()
    token.write_text("one")
    found = credentials(kubeconfig(tmp_path / "config", "http://h", tokenFile=str(token)), clock)
    await found.current()
    really, looks = found._read, 0

    async def hangs() -> float:
        nonlocal looks
        looks += 1
        await answers.wait()
        return await really()

    monkeypatch.setattr(found, "_read", hangs)
    token.write_text("two")
    clock.pass_(100)
    async with asyncio.timeout(20):
        told = await asyncio.gather(*(found.current() for _ in range(5)), found.current())
        assert {access.authorization for access in told} == {"Bearer one"}
        assert (await found.current()).authorization == "Bearer one"
        assert looks == 1
        answers.set()
        assert found._looking is not None
        await found._looking
        assert (await found.current()).authorization == "Bearer two"
    assert looks == 1


async def test_an_exec_plugin_is_asked_again_before_its_token_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_PATIENCE", 60.0)
    clock = Clock()
    script = tmp_path / "plugin"
    script.write_text(
        "#!/bin/sh\necho x >> $0.count\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":'
        '{"token":"fresh","expirationTimestamp":"2100-01-01T00:00:00Z"}}\'\n'
    )
    script.chmod(0o755)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}
    found = credentials(kubeconfig(tmp_path / "config", "http://h", exec=plugin), clock)
    assert (await found.current()).authorization == "Bearer fresh"
    clock.pass_(3600)
    await found.current()
    assert (tmp_path / "plugin.count").read_text() == "x\n"
    clock.pass_(100 * 366 * 86400)
    await found.current()
    assert (tmp_path / "plugin.count").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "{",
        "[]",
        # The library quotes the whole entry of a user that is not formed as it expects.
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": "http://h"}}],
                "users": [{"name": "u", "token": SECRET}],
            }
        ),
        json.dumps({"current-context": "c", "contexts": [], "clusters": [], "users": []}),
        json.dumps(
            {"clusters": [], "users": [{"name": "u", "user": {"token": SECRET}}], "contexts": [{"nom": 1}]}
        ),
    ],
)
async def test_a_broken_kubeconfig_is_one_line_that_names_it(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ClusterError) as caught:
        await credentials(str(path)).current()
    message = caught.value.message
    assert str(path) in message
    assert "--kubeconfig" in message
    assert "\n" not in message
    assert SECRET not in message


# ---- requests


async def test_a_request_carries_token_query_and_body(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    async def handle(request: web.Request) -> web.Response:
        seen.update(
            auth=request.headers["Authorization"], query=dict(request.query), body=await request.json()
        )
        seen.update(kind=request.headers["Content-Type"], method=request.method, path=request.path)
        return web.json_response({"ok": True})

    async with connected(tmp_path, handle, token=SECRET) as connection:
        raw = await connection.request(
            "PATCH",
            "/api/v1/nodes/n",
            query={"continue": "a/b+c="},
            body={"x": 1},
            content_type="application/merge-patch+json",
        )
    assert json.loads(raw) == {"ok": True}
    assert seen == {
        "auth": f"Bearer {SECRET}",
        "query": {"continue": "a/b+c="},
        "body": {"x": 1},
        "kind": "application/merge-patch+json",
        "method": "PATCH",
        "path": "/api/v1/nodes/n",
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "other"), (403, "forbidden"), (404, "not_found"), (409, "conflict"), (410, "other"),
        (422, "other"), (429, "unreachable"), (500, "unreachable"), (503, "unreachable"), (504, "unreachable"),
    ],
)  # fmt: skip
async def test_an_error_has_a_kind_and_the_servers_words_in_one_line(
    tmp_path: Path, status: int, kind: str
) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response(
            {"kind": "Status", "message": "the\nserver's words"}, status=status, headers={"Retry-After": "7"}
        )

    async with connected(tmp_path, handle, token=SECRET) as connection:
        with pytest.raises(ClusterError) as caught:
            await connection.request("GET", "/api/v1/nodes")
    error = caught.value
    assert (error.kind, error.status, error.words, error.retry_after) == (
        kind,
        status,
        "the server's words",
        7.0,
    )
    assert error.message.startswith("GET /api/v1/nodes: the server's words")
    assert "\n" not in error.message
    assert SECRET not in error.message


async def test_a_proxys_page_is_not_repeated_in_an_error(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text="<html>gateway " + SECRET, status=502, content_type="text/html")

    async with connected(tmp_path, handle) as connection:
        with pytest.raises(ClusterError) as caught:
            await connection.request("GET", "/x")
    assert "html" not in caught.value.message
    assert "502" in caught.value.message


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_a_token_that_an_answer_repeats_is_not_told(tmp_path: Path, status: int) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response(
            {"kind": "Status", "message": f"who is {request.headers['Authorization']}"}, status=status
        )

    async with connected(tmp_path, handle, token=SECRET) as connection:
        with pytest.raises(ClusterError) as caught:
            await connection.request("GET", "/x")
    assert "who is Bearer ***" in caught.value.message
    assert SECRET not in caught.value.message + caught.value.words


@pytest.mark.parametrize(
    "address", ["127.0.0.1:{port}", "127.0.0.1:1", "no-such-host.invalid:3128", "127.0.0.1:bad"]
)
async def test_the_password_of_a_proxy_is_not_told(tmp_path: Path, address: str) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    where = address.format(port=proxy.sockets[0].getsockname()[1])
    config = kubeconfig(
        tmp_path / "config",
        "https://10.1.2.3:6443",
        {"proxy-url": f"http://me:{SECRET}@{where}", "insecure-skip-tls-verify": True},
        token="of-no-matter",
    )
    connection = Connection(credentials(config))
    try:
        with pytest.raises(ClusterError) as caught:
            await connection.request("GET", "/x")
    finally:
        await connection.close()
        proxy.close()
    assert SECRET not in caught.value.message


async def test_a_401_reloads_the_credentials_exactly_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    seen: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        token.write_text("new")
        return web.json_response({}, status=200 if seen[-1] == "Bearer new" else 401)

    async with connected(tmp_path, handle, tokenFile=str(token)) as connection:
        await connection.request("GET", "/x")
        assert seen == ["Bearer old", "Bearer new"]

    async def refuse(request: web.Request) -> web.Response:
        seen.append("refused")
        return web.json_response({}, status=401)

    seen.clear()
    async with connected(tmp_path, refuse, token=SECRET) as connection:
        with pytest.raises(ClusterError) as caught:
            await connection.request("GET", "/x")
    assert seen == ["refused", "refused"]
    assert caught.value.kind == "unauthorised"
    assert "renew" in caught.value.message


async def test_an_answer_that_does_not_come_is_a_time_out(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with connected(tmp_path, handle) as connection:
        with pytest.raises(ClusterError) as caught:
            await connection.request("GET", "/x", timeout=0.02)
    assert caught.value.kind == "unreachable"
    assert "0.02 s" in caught.value.message


async def test_nobody_listening_is_unreachable_and_names_the_address(tmp_path: Path) -> None:
    async with served(streaming()) as url:
        pass
    connection = Connection(credentials(kubeconfig(tmp_path / "config", url)))
    with pytest.raises(ClusterError) as caught:
        await connection.request("GET", "/x")
    await connection.close()
    assert caught.value.kind == "unreachable"
    assert url in caught.value.message


async def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path) -> None:
    visits: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        visits.append(request.path)
        raise web.HTTPFound("/elsewhere")

    async with connected(tmp_path, handle, token=SECRET) as connection:
        with pytest.raises(ClusterError):
            await connection.request("GET", "/x")
    assert visits == ["/x"]


async def test_replaced_certificates_open_a_new_session_and_leave_running_watches_alone(
    tmp_path: Path,
) -> None:
    """Over http no certificate is read, so files that merely exist will do."""
    go_on = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            answer = web.StreamResponse()
            await answer.prepare(request)
            await answer.write(b"1\n")
            await go_on.wait()
            await answer.write(b"2\n")
            return answer
        return web.Response()

    async with served(handle) as url:
        clock = Clock()
        path = kubeconfig(tmp_path / "config", url)
        connection = Connection(credentials(path, clock))
        stream = connection.stream("/x", query={"watch": "true"})
        assert await anext(stream) == b"1"
        first = connection._session
        other = url.replace("127.0.0.1", "localhost")
        kubeconfig(tmp_path / "config", other)
        clock.pass_(61)
        await connection.request("GET", "/x")
        assert connection._session is not first
        go_on.set()
        assert [line async for line in stream] == [b"2"]
        await connection.close()


# ---- streams


def streaming(*chunks: bytes, cut: bool = False, hang: bool = False) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for chunk in chunks:
            await answer.write(chunk)
            await asyncio.sleep(0.001)
        if hang:
            await asyncio.Event().wait()
        if cut and request.transport:
            request.transport.abort()
        return answer

    return handle


async def lines_of(connection: Connection, **more: Any) -> list[bytes]:
    return [line async for line in connection.stream("/api/v1/pods", query={"watch": "true"}, **more)]


async def test_lines_come_whole_however_they_are_cut(tmp_path: Path) -> None:
    long = b"x" * 5_000_000
    async with connected(tmp_path, streaming(b"on", b"e\ntwo\n\nthr", b"ee\n", long, b"\n")) as connection:
        assert await lines_of(connection) == [b"one", b"two", b"three", long]


async def test_half_a_line_at_the_end_is_not_told(tmp_path: Path) -> None:
    async with connected(tmp_path, streaming(b"one\nhal")) as connection:
        assert await lines_of(connection) == [b"one"]


async def test_a_cut_stream_is_an_error_after_its_lines(tmp_path: Path) -> None:
    async with connected(tmp_path, streaming(b"one\n", cut=True)) as connection:
        stream = connection.stream("/x")
        assert await anext(stream) == b"one"
        with pytest.raises(ClusterError) as caught:
            await anext(stream)
    assert caught.value.kind == "unreachable"


async def test_a_stream_that_falls_silent_is_noticed(tmp_path: Path) -> None:
    async with connected(tmp_path, streaming(b"one\n", hang=True)) as connection:
        with pytest.raises(ClusterError) as caught:
            await lines_of(connection, read_timeout=0.03)
    assert caught.value.kind == "unreachable"


async def test_a_request_without_an_answer_ends_the_watches_that_are_silent_since_and_no_others(
    tmp_path: Path,
) -> None:
    asked, over = asyncio.Event(), asyncio.Event()
    quick: list[object] = []  # the connections of these requests

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path == "/quick":
            quick.append(request.transport)
            return web.Response()
        if request.path == "/slow":
            asked.set()
            await asyncio.Event().wait()
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"1\n")
        if request.path == "/talking":
            await asked.wait()
            await answer.write(b"2\n")
            await over.wait()
            await answer.write(b"3\n")
        await asyncio.Event().wait()
        return answer

    async with connected(tmp_path, handle) as connection:
        silent, talking = connection.stream("/silent"), connection.stream("/talking")
        assert [await anext(silent), await anext(talking)] == [b"1", b"1"]
        await connection.request("GET", "/quick")
        waiting, heard = asyncio.ensure_future(anext(silent)), asyncio.ensure_future(anext(talking))
        with pytest.raises(ClusterError):
            await connection.request("GET", "/slow", timeout=0.2)
        with pytest.raises(ClusterError) as caught:
            await waiting
        assert caught.value.kind == "unreachable"
        over.set()
        assert [await heard, await anext(talking)] == [b"2", b"3"]
        await connection.request("GET", "/quick")
        await talking.aclose()
    assert quick[0] is not quick[1]


async def test_a_connection_apart_is_warm_and_its_own_whatever_others_do(tmp_path: Path) -> None:
    by_path: dict[str, list[object]] = {}

    async def handle(request: web.Request) -> web.StreamResponse:
        by_path.setdefault(request.path, []).append(request.transport)
        if not request.path.startswith("/watch"):
            return web.Response()
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"1\n")
        await asyncio.Event().wait()
        return answer

    async with connected(tmp_path, handle) as connection:
        apart = connection.apart()
        await connection.request("GET", "/first")
        await apart.request("PUT", "/lease", body={})
        watches = [connection.stream(f"/watch{number}") for number in range(8)]
        for watch in watches:
            await anext(watch)
            await apart.request("PUT", "/lease", body={})
            await connection.request("GET", "/other")
        for watch in watches:
            await watch.aclose()
        await connection.close()
        with pytest.raises(ClusterError, match="is closed"):
            await apart.request("PUT", "/lease", body={})
    own = set(map(id, by_path.pop("/lease")))
    assert len(own) == 1
    assert not own & {id(each) for others in by_path.values() for each in others}


async def test_a_connection_apart_without_an_answer_ends_the_silent_watches_beside_it(tmp_path: Path) -> None:
    used: list[object] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        used.append(request.transport)
        if request.path == "/quick":
            return web.Response()
        answer = web.StreamResponse()
        if request.path == "/silent":
            await answer.prepare(request)
            await answer.write(b"1\n")
        await asyncio.Event().wait()
        return answer

    async with connected(tmp_path, handle) as connection:
        silent = connection.stream("/silent")
        assert await anext(silent) == b"1"
        await connection.request("GET", "/quick")
        before = connection._session
        assert before is not None
        waiting = asyncio.ensure_future(anext(silent))
        with pytest.raises(ClusterError):
            await connection.apart().request("GET", "/slow", timeout=0.1)
        with pytest.raises(ClusterError):
            await waiting
        await connection.request("GET", "/quick")
        assert connection._session is not before
        assert before._client.closed  # nobody used it any more
    assert used[1] is not used[-1]


async def test_replaced_certificates_leave_no_session_open_however_many_ask_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response()

    made: list[sessions.Session] = []

    class Slow(sessions.Session):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            made.append(self)

        async def close(self) -> None:
            await asyncio.sleep(0.01)
            await super().close()

    monkeypatch.setattr(sessions, "Session", Slow)
    async with connected(tmp_path, handle) as connection:
        await connection.request("GET", "/x")
        known = await connection._credentials.current()
        connection._credentials._access = replace(known, stamps=(("ca.crt", 2),))
        await asyncio.gather(*(connection.request("GET", "/x") for _ in range(5)))
        assert len(made) == 2
    assert all(session._client.closed for session in made)


async def test_a_410_on_a_stream_keeps_its_status(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response({"message": "too old", "reason": "Expired", "code": 410}, status=410)

    async with connected(tmp_path, handle) as connection:
        with pytest.raises(ClusterError) as caught:
            await lines_of(connection)
    assert caught.value.status == 410


# ---- TLS


def certificates(at: Path) -> None:
    """A CA, a server's and a client's certificate, without key identifiers, as many clusters have them."""
    at.mkdir(exist_ok=True)

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=at, check=True, capture_output=True)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test-ca", "-days", "2")
    (at / "names").write_text("subjectAltName=DNS:kubernetes.default")
    for name in ("server", "client"):
        openssl("req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-out", f"{name}.crt", "-days", "2", "-extfile", "names")  # fmt: skip


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make certificates")
async def test_certificates_of_the_kubeconfig_prove_both_sides(tmp_path: Path) -> None:
    certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.crt"))
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 sets it by default
    seen: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        seen.append(request.transport.get_extra_info("peercert")["subject"][0][0][1])
        return web.Response()

    app = web.Application()
    app.router.add_get("/x", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"

    def data(name: str) -> str:
        return base64.b64encode((tmp_path / name).read_bytes()).decode()

    async def ask(**cluster: Any) -> None:
        user = {"client-certificate-data": data("client.crt"), "client-key-data": data("client.key")}
        connection = Connection(credentials(kubeconfig(tmp_path / "config", url, cluster, **user)))
        try:
            await connection.request("GET", "/x")
        finally:
            await connection.close()

    authority = {"certificate-authority-data": data("ca.crt")}
    await ask(**authority, **{"tls-server-name": "kubernetes.default"})
    await ask(**{"insecure-skip-tls-verify": True})
    assert seen == ["client", "client"]
    for refused in (authority, {"tls-server-name": "kubernetes.default"}):  # wrong name; unknown authority
        with pytest.raises(ClusterError) as caught:
            await ask(**refused)
        assert "certificate verify failed" in caught.value.message.lower()
    assert seen == ["client", "client"]
    await runner.cleanup()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make certificates")
async def test_a_replaced_authority_is_read_when_the_server_shows_a_certificate_of_the_new_one(
    tmp_path: Path,
) -> None:
    for name in ("old", "new"):
        certificates(tmp_path / name)

    async def handle(request: web.Request) -> web.Response:
        return web.Response()

    def dressed(name: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(tmp_path / name / "server.crt", tmp_path / name / "server.key")
        return context

    app = web.Application()
    app.router.add_get("/x", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.05)
    await runner.setup()
    first = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=dressed("old"))
    await first.start()
    port = runner.addresses[0][1]
    authority = tmp_path / "ca.crt"
    authority.write_bytes((tmp_path / "old" / "ca.crt").read_bytes())
    cluster = {"certificate-authority": str(authority), "tls-server-name": "kubernetes.default"}
    connection = Connection(
        credentials(kubeconfig(tmp_path / "config", f"https://127.0.0.1:{port}", cluster))
    )
    await connection.request("GET", "/x")
    await first.stop()
    await runner.cleanup()
    runner = web.AppRunner(app, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=dressed("new")).start()
    with pytest.raises(ClusterError) as caught:
        await connection.request("GET", "/x")
    assert "certificate verify failed" in caught.value.message.lower()
    authority.write_bytes((tmp_path / "new" / "ca.crt").read_bytes())
    await connection.request("GET", "/x")  # and not only after the minute that files are trusted for
    await connection.close()
    await runner.cleanup()


async def test_a_kubeconfig_without_a_user_over_https_is_no_crash(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "https://h:1", users=0)
    assert (await credentials(path).current()).authorization == ""


# ---- rights


async def test_missing_rights_are_sorted_lines(tmp_path: Path) -> None:
    denied = {
        ("nodes", "patch", ""),
        ("configmaps", "update", "gpu"),
        ("pods", "create", ""),
        ("secrets", "get", "gpu"),
    }
    asked: list[dict[str, str]] = []

    async def handle(request: web.Request) -> web.Response:
        found = (await request.json())["spec"]["resourceAttributes"]
        asked.append(found)
        allowed = (found["resource"], found["verb"], found.get("namespace", "")) not in denied
        return web.json_response({"status": {"allowed": allowed}}, status=201)

    async with connected(tmp_path, handle) as connection:
        missing = await connection.missing_rights("gpu", secrets=["token"])
    assert missing == [
        "create pods/eviction",
        "get secrets token in namespace gpu",
        "patch nodes",
        "update configmaps in namespace gpu",
    ]
    assert {"resource": "pods", "subresource": "eviction", "verb": "create"} in asked
    assert {"resource": "daemonsets", "group": "apps", "verb": "watch"} in asked
    assert {"resource": "namespaces", "verb": "get", "name": "kube-system"} in asked
    assert len(asked) == len([right for right in rights.RIGHTS if not right.optional])


def test_the_table_of_rights_holds_no_right_twice_and_no_wildcard() -> None:
    assert len(set(rights.RIGHTS)) == len(rights.RIGHTS)
    assert not any("*" in right.resource + right.verb for right in rights.RIGHTS)
    assert not any(right.plural == "secrets" and not right.own_namespace for right in rights.RIGHTS)
