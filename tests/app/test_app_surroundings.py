"""Where startup scripts of the user's own come from, and what is said when they do not come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from controller.app.surroundings import OwnSurroundings
from controller.join.own import uploaded_id
from controller.join.protocol import JoinError

ID = "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d"
SECRET = "a-secret-that-must-not-show"


@asynccontextmanager
async def server() -> AsyncIterator[str]:
    async def upload(_: web.Request) -> web.Response:
        return web.Response(text=ID)

    async def script(_: web.Request) -> web.Response:
        return web.Response(text="#!/bin/bash\ntrue\n")

    async def broken(_: web.Request) -> web.Response:
        return web.Response(status=500, text=SECRET)

    async def huge(_: web.Request) -> web.Response:
        return web.Response(text="x" * 300_000)

    async def binary(_: web.Request) -> web.Response:
        return web.Response(body=b"\xff\xfe")

    app = web.Application()
    app.router.add_post("/upload", upload)
    app.router.add_get("/plain", script)
    for path, handler in (("/broken", broken), ("/huge", huge), ("/binary", binary)):
        app.router.add_post(path, handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_a_script_server_is_asked_as_the_go_provider_asks_it_or_plainly() -> None:
    around = OwnSurroundings({})
    async with server() as url:
        assert uploaded_id(await around.fetch(f"{url}/upload")) == ID
        assert await around.fetch(f"{url}/plain") == "#!/bin/bash\ntrue\n"


@pytest.mark.parametrize("path", ["broken", "huge", "binary", "nowhere"])
async def test_an_answer_that_is_no_script_is_told_without_showing_it(path: str) -> None:
    async with server() as url:
        with pytest.raises(JoinError) as caught:
            await OwnSurroundings({}).fetch(f"{url}/{path}?key={SECRET}")
        assert SECRET not in str(caught.value)
        assert path in str(caught.value)


async def test_a_server_that_is_away_and_a_file_that_is_missing_are_told() -> None:
    around = OwnSurroundings({})
    with pytest.raises(JoinError, match="does not answer"):
        await around.fetch("http://127.0.0.1:9/script")
    with pytest.raises(JoinError, match="cannot be read"):
        await around.file("/nowhere/join.sh")


async def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "join.sh"
    around = OwnSurroundings({})
    for text in ("one", "two"):
        file.write_text(text)
        assert await around.file(str(file)) == text


def test_only_variables_that_are_named_are_given_and_a_missing_one_is_told() -> None:
    around = OwnSurroundings({"JOIN_TOKEN": "abc", "HOME": "/root"})
    assert around.variables(("JOIN_TOKEN",)) == {"JOIN_TOKEN": "abc"}
    with pytest.raises(JoinError, match="MASTER_IP: not set"):
        around.variables(("JOIN_TOKEN", "MASTER_IP"))
