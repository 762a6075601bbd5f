"""Certificates for a second name of the API server, so that they can be replaced while everything runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

NAME = "front.e2e"
_NEW = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


class Authority:
    """A CA of its own, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._openssl("req", "-x509", *_NEW, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=e2e-ca")

    @property
    def certificate(self) -> bytes:
        return (self._folder / "ca.crt").read_bytes()

    def issue(self, to: Path) -> None:
        """A new certificate for `NAME`, as `front.crt` and `front.key` in that folder."""
        self._openssl("req", *_NEW, "-keyout", "new.key", "-out", "new.csr", "-subj", f"/CN={NAME}")
        (self._folder / "names").write_text(f"subjectAltName=DNS:{NAME}")
        self._openssl(
            "x509", "-req", "-in", "new.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", "new.crt",
            "-days", "2", "-extfile", "names",
        )  # fmt: skip
        for kind in ("key", "crt"):
            (self._folder / f"new.{kind}").replace(to / f"front.{kind}")

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._folder, check=True, capture_output=True, timeout=30)
