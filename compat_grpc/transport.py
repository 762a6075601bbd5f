"""Who may call: mutual TLS with certificates that are read again when they change, and a list of names.

Whoever reaches this port can create and delete machines. The chain alone says little where one authority
signs for a whole cluster, so the names in a client's certificate can be compared too. Files that cannot be
read, or do not fit each other, leave the last good ones in force: a rotation writes one after the other.
gRPC itself refuses anything older than TLS 1.2.
"""

from __future__ import annotations

import logging
import ssl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import msgspec

log = logging.getLogger("gpu_autoscaler.grpc")


class Files(msgspec.Struct, frozen=True, kw_only=True):
    cert: str
    key: str
    client_ca: str = ""  # "": whoever connects is let in


class TlsError(Exception):
    """The certificates cannot be used; the message names the file."""


class Certificates:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._read = self._bytes()
        _check(files, *self._read)
        self._complained = ""

    @property
    def credentials(self) -> grpc.ServerCredentials:
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(), self._again, require_client_authentication=bool(self._files.client_ca)
        )

    def _bytes(self) -> tuple[bytes, bytes, bytes]:
        found = []
        for path in (self._files.cert, self._files.key, self._files.client_ca):
            try:
                found.append(Path(path).read_bytes() if path else b"")
            except OSError as error:
                raise TlsError(f"{path}: cannot be read: {error.strerror}") from error
        cert, key, authority = found
        return cert, key, authority

    def _configuration(self) -> Any:
        cert, key, authority = self._read
        return grpc.ssl_server_certificate_configuration([(key, cert)], root_certificates=authority or None)

    def _again(self) -> Any:
        """Asked for each new connection, on a thread of gRPC's; None: as before."""
        try:
            found = self._bytes()
            if found != self._read:  # judging writes the key to a file: not for each connection
                _check(self._files, *found)
        except Exception as error:  # noqa: BLE001  (whatever it is, the last good ones go on)
            if str(error) != self._complained:
                self._complained = str(error)
                log.warning("the last certificates stay in force", extra={"why": self._complained})
            return None
        self._complained = ""
        if found == self._read:
            return None
        self._read = found
        log.info("certificates were read again")
        return self._configuration()


def _check(files: Files, cert: bytes, key: bytes, authority: bytes) -> None:
    """Whether key and certificate are a pair, and the authority is one; gRPC would say nothing and serve nobody."""
    with tempfile.TemporaryDirectory() as folder:
        chain, secret = Path(folder, "chain"), Path(folder, "secret")
        chain.write_bytes(cert)
        secret.touch(mode=0o600)
        secret.write_bytes(key)
        try:
            # Nobody can be asked for the passphrase of a key, and gRPC would not know it either.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, secret, password=lambda: "")
        except (ssl.SSLError, OSError, ValueError) as error:
            why = getattr(error, "reason", None) or "no certificate with its key"
            raise TlsError(f"{files.cert} and {files.key}: cannot be used together: {why}") from None
    if files.client_ca:
        try:
            # Bundles tell of their authorities in every language between the certificates.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(
                cadata=authority.decode("ascii", "ignore")
            )
        except (ssl.SSLError, ValueError):
            raise TlsError(f"{files.client_ca}: holds no certificate in PEM") from None


def admission(allowed: Sequence[str]) -> Callable[[Any], str]:
    """Why the peer of a call is not let in, or "". No names: everybody whose certificate is accepted."""
    wanted = frozenset(allowed)
    if not wanted:
        return lambda context: ""

    def admit(context: Any) -> str:
        told = context.auth_context().get("x509_subject_alternative_name", [])
        names = {name.decode("utf-8", "replace") for name in told}
        if names & wanted:
            return ""
        return "the names in this client's certificate are not among externalgrpc.allowed_names"

    return admit
