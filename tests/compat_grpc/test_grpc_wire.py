"""The generated code is what `make proto` makes now, and serves exactly the calls that clients know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compat_grpc.calls import SERVICE
from tests.compat_grpc.generations import MESSAGES, METHODS, PACKAGE

ROOT = Path(__file__).resolve().parents[2]


def test_the_generated_code_is_current(tmp_path: Path) -> None:
    names = sorted(path.name for path in (ROOT / "proto").glob("*.proto"))
    subprocess.run(
        [
            sys.executable, "-m", "grpc_tools.protoc", f"-Icompat_grpc/wire={ROOT / 'proto'}", f"--python_out={tmp_path}",
            f"--pyi_out={tmp_path}", *(f"compat_grpc/wire/{name}" for name in names),
        ],
        check=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    made = {path.name: path.read_text() for path in (tmp_path / "compat_grpc" / "wire").iterdir()}
    kept = {
        path.name: path.read_text()
        for path in (ROOT / "compat_grpc" / "wire").iterdir()
        if "_pb2" in path.name
    }
    assert made == kept, "run `make proto`"


def test_every_method_of_every_generation_is_there() -> None:
    assert SERVICE.full_name == f"{PACKAGE}.CloudProvider"
    ours = {m.name: (m.input_type.name, m.output_type.name) for m in SERVICE.methods}
    assert ours == METHODS


def test_the_union_has_every_field_of_every_generation() -> None:
    file = SERVICE.file
    for name, fields in MESSAGES.items():
        ours = {(f.name, f.number) for f in file.message_types_by_name[name].fields}
        assert {(field, number) for field, number, _, _ in fields} == ours, name
