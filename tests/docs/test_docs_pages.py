"""The documents tell the same story as the code."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from textwrap import dedent

from controller.config.load import load
from controller.domain.reason import SENTENCES, Reason
from controller.report import reasons_page

ROOT = Path(__file__).resolve().parents[2]


def test_every_reason_has_a_sentence() -> None:
    assert set(SENTENCES) == set(Reason)


def test_the_page_of_reasons_is_current() -> None:
    assert reasons_page.PAGE.read_text(encoding="utf-8") == reasons_page.render()


def test_the_settings_file_in_the_readme_is_valid() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    texts = [dedent(block) for block in blocks if block.lstrip().startswith("# settings.yaml")]
    assert texts
    for text in texts:
        assert load("settings.yaml", {}, text=text).warnings == []


def test_the_change_log_knows_this_version() -> None:
    assert f"## {version('verda-gpu-autoscaler')}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_links_between_the_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "SCOPE.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"
