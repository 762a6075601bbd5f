"""The image is built from what is there: nothing that its recipe copies is missing or kept out, no command of it is a dead link."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def copied() -> list[str]:
    lines = [line.split()[1:-1] for line in RECIPE.splitlines() if re.match(r"COPY (?!--from)", line)]
    return [source for line in lines for source in line]


def is_sent(path: str) -> bool:
    """Whether the builder gets it: the last line of .dockerignore that fits decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip().removeprefix("!")
        if (
            pattern
            and not line.startswith("#")
            and (fnmatch(path, pattern) or path.startswith(f"{pattern}/"))
        ):
            sent = line.startswith("!")
    return sent


def test_everything_that_is_copied_is_there_and_reaches_the_builder() -> None:
    assert {"controller", "compat_grpc", "pyproject.toml", "requirements-grpc.txt"} <= set(copied())
    assert [source for source in copied() if not (ROOT / source).exists()] == []
    assert [source for source in copied() if not is_sent(source)] == []
    assert not is_sent("tests/power_server.py")
    assert not is_sent(".git/config")


def test_whatever_the_package_needs_to_be_built_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["readme"] in copied()
    assert set(project["project"]["license-files"]) <= set(copied())
    packages = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {name.rstrip("*.") for name in packages} <= set(copied())
    backend = re.search(r"awk '/\^(\w+)==/", RECIPE)
    assert backend is not None
    assert any(
        line.startswith(f"{backend[1]}==")
        for line in (ROOT / "requirements-dev.txt").read_text().splitlines()
    )


def test_the_links_and_the_entry_point_are_commands_of_the_package() -> None:
    links = re.findall(r"ln -s /opt/app/bin/([\w-]+) /([\w-]+)", RECIPE)
    assert sorted(links) == [("cluster-autoscaler",) * 2, ("verda-cloud-provider",) * 2]
    entry = re.search(r'ENTRYPOINT \["([\w-]+)"\]', RECIPE)
    assert entry is not None
    assert {name for name, _ in links} | {entry[1]} == set(SCRIPTS)
