"""The image of everything that runs in pods here, made without a registry: one layer, two static programs.

An archive as `docker save` writes it, which containerd imports under the name that it carries.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

NAME = "localhost/e2e:1"
PROGRAMS = ("work", "gpus")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def make(programs: Path, archive: Path) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as packed:
        for name in PROGRAMS:
            _add(packed, name, (programs / name).read_bytes(), mode=0o755)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Entrypoint": ["/work"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, mode="w") as packed:
        _add(packed, "manifest.json", json.dumps(manifest).encode())
        _add(packed, "config.json", json.dumps(config).encode())
        _add(packed, "layer.tar", layer.getvalue())


def architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _add(packed: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    packed.addfile(entry, io.BytesIO(content))
