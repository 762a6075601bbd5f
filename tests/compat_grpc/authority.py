"""Certificates for tests, made by openssl: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from pathlib import Path


def _openssl(*args: str) -> None:
    subprocess.run(["openssl", *args], check=True, capture_output=True, timeout=60)


class Authority:
    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self.name = name
        self.cert, self.key = folder / f"{name}.crt", folder / f"{name}.key"
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", str(self.key), "-out", str(self.cert), "-days", "30", "-subj", f"/CN={name}",
        )  # fmt: skip

    def sign(
        self, name: str, *, san: str, usage: str = "clientAuth", expired: bool = False
    ) -> tuple[Path, Path]:
        """Certificate and key; one that is expired was good until yesterday."""
        cert, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        request, extra = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        _openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key),
            "-out", str(request), "-subj", f"/CN={name}",
        )  # fmt: skip
        extra.write_text(f"subjectAltName={san}\nextendedKeyUsage={usage}\n")
        dates = (
            ("-not_before", "20200101000000Z", "-not_after", "20200102000000Z")
            if expired
            else ("-days", "10")
        )
        if expired:
            self._sign_with_dates(request, cert, extra)
            return cert, key
        _openssl(
            "x509", "-req", "-in", str(request), "-CA", str(self.cert), "-CAkey", str(self.key), "-CAcreateserial",
            "-out", str(cert), "-extfile", str(extra), *dates,
        )  # fmt: skip
        return cert, key

    def _sign_with_dates(self, request: Path, cert: Path, extra: Path) -> None:
        """`x509` knows no start in the past in older releases; `ca` does."""
        folder = self._folder / f"{request.stem}-ca"
        folder.mkdir()
        (folder / "index.txt").touch()
        (folder / "serial").write_text("1000\n")
        settings = folder / "ca.cnf"
        settings.write_text(
            f"[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index.txt\nserial={folder}/serial\nnew_certs_dir={folder}\n"
            "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n"
        )
        _openssl(
            "ca", "-batch", "-config", str(settings), "-cert", str(self.cert), "-keyfile", str(self.key),
            "-in", str(request), "-out", str(cert), "-extfile", str(extra), "-notext",
            "-startdate", "20200101000000Z", "-enddate", "20200102000000Z",
        )  # fmt: skip
