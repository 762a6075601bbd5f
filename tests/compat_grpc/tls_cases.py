"""Who gets in: mutual TLS with each kind of wrong certificate, names, rotation, and plaintext by name only.

Run by `test_grpc_tls`."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest

from compat_grpc import transport
from compat_grpc.transport import Certificates, Files, TlsError
from controller.config.externalgrpc import Tls
from tests.compat_grpc.authority import Authority
from tests.compat_grpc.generations import GENERATIONS, Client
from tests.compat_grpc.scene import Served, code_of, served

NAME = "cluster-autoscaler-grpc-client"


class Yard:
    """The certificates of both sides, and connections with any of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ours = Authority(folder, "ours")
        self.others = Authority(folder, "others")
        self.server = self.ours.sign("server", san="DNS:localhost,IP:127.0.0.1", usage="serverAuth")
        self.good = self.ours.sign("good", san=f"DNS:{NAME}")
        self.wrong_name = self.ours.sign("wrong-name", san="DNS:somebody-else")
        self.expired = self.ours.sign("expired", san=f"DNS:{NAME}", expired=True)
        self.foreign = self.others.sign("foreign", san=f"DNS:{NAME}")
        self.not_a_client = self.ours.sign("not-a-client", san=f"DNS:{NAME}", usage="serverAuth")

    def tls(self) -> Tls:
        return Tls(cert=str(self.server[0]), key=str(self.server[1]), client_ca=str(self.ours.cert))

    def connect(self, port: int, pair: tuple[Path, Path] | None, authority: Authority | None = None) -> Any:
        trusted = (authority or self.ours).cert.read_bytes()
        own = (pair[1].read_bytes(), pair[0].read_bytes()) if pair else (None, None)
        return grpc.aio.secure_channel(f"localhost:{port}", grpc.ssl_channel_credentials(trusted, *own))


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    return Yard(tmp_path_factory.mktemp("yard"))


async def called(channel: Any, timeout: float = 20.0) -> str:
    """What each generation of messages is answered."""
    try:
        answers = [await code_of(Client(channel, each, timeout).NodeGroups()) for each in GENERATIONS]
    finally:
        await channel.close()
    (code,) = {code for code, _ in answers}
    return code


async def test_only_the_good_client_gets_in_and_the_others_change_nothing(yard: Yard) -> None:
    async with served(insecure=False, tls=yard.tls(), allowed_names=(NAME,)) as one:
        good = yard.connect(one.port, yard.good)
        assert (await code_of(Client(good, timeout=20).NodeGroups()))[0] == "OK"
        for pair in (None, yard.foreign, yard.expired, yard.not_a_client):
            assert await called(yard.connect(one.port, pair)) == "UNAVAILABLE", pair
        assert await called(yard.connect(one.port, yard.wrong_name)) == "PERMISSION_DENIED"
        assert await called(grpc.aio.insecure_channel(f"localhost:{one.port}")) == "UNAVAILABLE"
        stranger = Client(yard.connect(one.port, yard.wrong_name), timeout=20)
        code, words = await code_of(stranger.NodeGroupIncreaseSize(id="g", delta=1))
        assert code == "PERMISSION_DENIED"
        assert "externalgrpc.allowed_names" in words
        assert (await Client(good).NodeGroupTargetSize(id="g")).targetSize == 0
        assert not one.hands.did("create")
        await good.close()


async def test_without_a_list_of_names_the_authority_decides(yard: Yard) -> None:
    async with served(insecure=False, tls=yard.tls()) as one:
        assert await called(yard.connect(one.port, yard.wrong_name)) == "OK"
        assert await called(yard.connect(one.port, yard.foreign)) == "UNAVAILABLE"


async def test_replaced_certificates_are_served_to_new_connections(yard: Yard, tmp_path: Path) -> None:
    cert, key, authority = (tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt"))
    shutil.copy(yard.server[0], cert)
    shutil.copy(yard.server[1], key)
    shutil.copy(yard.ours.cert, authority)
    tls = Tls(cert=str(cert), key=str(key), client_ca=str(authority))
    async with served(insecure=False, tls=tls) as one:
        old = yard.connect(one.port, yard.good)
        assert (await code_of(Client(old, timeout=20).NodeGroups()))[0] == "OK"
        renewed = yard.others.sign("renewed", san="DNS:localhost", usage="serverAuth")
        shutil.copy(renewed[0], cert)  # half of a rotation: key and certificate are no pair now
        assert await called(yard.connect(one.port, yard.good)) == "OK"
        shutil.copy(renewed[1], key)
        authority.write_bytes(yard.ours.cert.read_bytes() + yard.others.cert.read_bytes())
        assert await called(yard.connect(one.port, yard.good, yard.others)) == "OK"
        assert await called(yard.connect(one.port, yard.foreign, yard.others)) == "OK"
        assert await called(yard.connect(one.port, yard.good, yard.ours)) == "UNAVAILABLE"
        assert (await code_of(Client(old).NodeGroups()))[0] == "OK"  # who is connected stays so
        cert.unlink()
        assert await called(yard.connect(one.port, yard.good, yard.others)) == "OK"
        await old.close()


async def test_an_authority_that_is_just_being_written_leaves_the_last_one_in_force(
    yard: Yard, tmp_path: Path
) -> None:
    authority = tmp_path / "ca.crt"
    shutil.copy(yard.ours.cert, authority)
    tls = yard.tls().model_copy(update={"client_ca": str(authority)})
    async with served(insecure=False, tls=tls) as one:
        authority.write_bytes(b"")
        assert await called(yard.connect(one.port, yard.good)) == "OK"
        for stranger in (None, yard.foreign):
            assert await called(yard.connect(one.port, stranger)) == "UNAVAILABLE"


async def test_a_bundle_may_name_its_authorities_in_any_language(yard: Yard, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.crt"
    bundle.write_text(f"# Főtanúsítvány\n{yard.ours.cert.read_text()}", encoding="utf-8")
    tls = yard.tls().model_copy(update={"client_ca": str(bundle)})
    async with served(insecure=False, tls=tls) as one:
        assert await called(yard.connect(one.port, yard.good)) == "OK"
        assert await called(yard.connect(one.port, yard.foreign)) == "UNAVAILABLE"


async def test_files_that_did_not_change_are_not_judged_for_each_connection(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(insecure=False, tls=yard.tls()) as one:
        judged: list[str] = []
        monkeypatch.setattr(transport, "_check", lambda files, *found: judged.append(files.cert))
        for _ in range(3):
            assert await called(yard.connect(one.port, yard.good)) == "OK"
        assert not judged


async def test_nothing_older_than_tls_1_2_is_spoken(yard: Yard) -> None:
    async with served(insecure=False, tls=yard.tls()) as one:
        assert await _handshake(yard, one, ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await _handshake(yard, one, ssl.TLSVersion.TLSv1_1)


async def _handshake(yard: Yard, one: Served, version: ssl.TLSVersion) -> str:
    import asyncio
    import warnings

    context = ssl.create_default_context(cafile=str(yard.ours.cert))
    context.load_cert_chain(*yard.good)
    context.set_alpn_protocols(["h2"])
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    _, writer = await asyncio.open_connection("localhost", one.port, ssl=context)
    found = writer.get_extra_info("ssl_object").version()
    writer.close()
    return str(found)


def test_certificates_that_cannot_work_are_told_with_their_file(yard: Yard, tmp_path: Path) -> None:
    good = {"cert": str(yard.server[0]), "key": str(yard.server[1]), "client_ca": str(yard.ours.cert)}
    junk, empty, locked = tmp_path / "junk", tmp_path / "empty", tmp_path / "locked"
    junk.write_text("-----BEGIN CERTIFICATE-----\n")
    empty.touch()
    words = ["pkey", "-in", str(yard.server[1]), "-aes256", "-passout", "pass:x", "-out", str(locked)]
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)
    for key, path, words in (
        ("cert", "/nowhere/tls.crt", "/nowhere/tls.crt: cannot be read"),
        ("key", str(yard.good[1]), "cannot be used together"),
        ("key", str(locked), "cannot be used together"),  # and nobody is asked for a passphrase
        ("client_ca", str(junk), "holds no certificate"),
        ("client_ca", str(empty), "holds no certificate"),
    ):
        with pytest.raises(TlsError, match=words):
            Certificates(Files(**(good | {key: path})))


async def test_plaintext_is_warned_of_measured_and_told() -> None:
    async with served() as one:
        await one.settle()
        assert one.warnings == [
            "InsecureExternalGrpc: cluster-autoscaler is served without client certificates: whoever reaches the "
            "port can buy machines"
        ]
        assert one.registry.get_sample_value("gpu_autoscaler_grpc_insecure") == 1


async def test_with_certificates_there_is_nothing_to_warn_of(yard: Yard) -> None:
    async with served(insecure=False, tls=yard.tls()) as one:
        await one.settle()
        assert not one.warnings
        assert one.registry.get_sample_value("gpu_autoscaler_grpc_insecure") == 0
