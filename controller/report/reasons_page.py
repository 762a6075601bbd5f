"""docs/reasons.md, written from the one table of reasons. `python -m controller.report.reasons_page`."""

from __future__ import annotations

from pathlib import Path

from controller.domain.reason import SENTENCES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reasons.md"

HEAD = """# Reasons

<!-- Written by `python -m controller.report.reasons_page`; change controller/domain/reason.py instead. -->

Every machine and every waiting pod that asks for a GPU, for something else that a pool declares, or for a claim has exactly
one reason at any time. The code never changes its
meaning: alerts, scripts and tests may rely on it. The sentence beside it in events, `plan`, the logs and
the status adds the numbers and says what would have to change.

| code | meaning |
|---|---|
"""


def render() -> str:
    return HEAD + "".join(f"| `{reason.value}` | {sentence} |\n" for reason, sentence in SENTENCES.items())


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
