"""The product has one event loop and one server; nothing that gRPC leaves behind ends such a process.

Tests with several loops in one process do crash in gRPC when its leftovers are freed under another loop. So what the
product does is tried in a process of its own: servers begun and ended, certificates rotated, clients of every kind.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_LIFE = """
import asyncio, gc, pathlib, shutil, sys
from tests.compat_grpc.scene import code_of, served
from tests.compat_grpc.generations import Client
from tests.compat_grpc.tls_cases import Yard, called

async def live(folder):
    yard = Yard(folder)
    served_files = {name: folder / ("now-" + name) for name in ("crt", "key")}
    def put(pair):
        shutil.copy(pair[0], served_files["crt"])
        shutil.copy(pair[1], served_files["key"])
    renewed = yard.ours.sign("renewed", san="DNS:localhost", usage="serverAuth")
    for number in range(6):
        put(yard.server)
        tls = yard.tls().model_copy(update={"cert": str(served_files["crt"]), "key": str(served_files["key"])})
        async with served(insecure=False, tls=tls, health=True, reflection=True) as one:
            good = yard.connect(one.port, yard.good)
            assert (await code_of(Client(good, timeout=20).NodeGroupIncreaseSize(id="g", delta=1)))[0] == "OK"
            put(renewed)
            assert await called(yard.connect(one.port, yard.good)) == "OK"
            assert await called(yard.connect(one.port, yard.foreign)) == "UNAVAILABLE"
            hanging = asyncio.ensure_future(code_of(Client(good, timeout=20).NodeGroups()))
            await asyncio.sleep(0)
            if number % 3:
                await good.close()  # the client goes first, or the server does
            await one.driver.stop()
            await asyncio.gather(hanging, return_exceptions=True)
            await good.close()
        gc.collect()
    gc.collect()
    print("lived")

asyncio.run(live(pathlib.Path(sys.argv[1])))
gc.collect()
print("ended")
"""


def test_servers_come_and_go_and_certificates_change_in_one_process(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _LIFE, str(tmp_path)],
        capture_output=True, text=True, timeout=240, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    assert ended.stdout.split() == ["lived", "ended"]
