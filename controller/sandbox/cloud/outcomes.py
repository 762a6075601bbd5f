"""How creates that were accepted fail later: the rules, as people write them."""

from __future__ import annotations

from typing import Any

from controller.sandbox.cloud.catalogue import MARKETS
from controller.sandbox.cloud.ground import OutcomeRule
from controller.sandbox.cloud.knobs import BadSetting
from controller.sandbox.cloud.model import Outcome
from controller.sandbox.cloud.reading import Fields
from controller.sandbox.cloud.settings import STAGES

OUTCOMES = ("no_capacity", "installation_failed", "error", "stuck")


def read_outcomes(raw: Any, at: str = "outcomes") -> list[OutcomeRule]:
    """The async failures of the next creates: the first rule that matches and is not used up."""
    if not isinstance(raw, list):
        raise BadSetting(
            at, raw, "a list of {instance_type, location, market, outcome, after_s, times, share}"
        )
    return [_outcome(Fields(f"{at}[{index}]", row)) for index, row in enumerate(raw)]


def _outcome(fields: Fields) -> OutcomeRule:
    kind, places = fields.text("instance_type", "*"), fields.text("location", "*")
    market = fields.choice("market", ("*", *MARKETS), "*")
    outcome = fields.choice("outcome", OUTCOMES)
    after, times = fields.number("after_s"), fields.count("times", 1)
    stage = fields.choice("stuck_in", STAGES, "provisioning")
    share, error = fields.number("share", 1.0, most=1.0), fields.text("error") or None
    fields.done()
    return OutcomeRule(
        kind or "*",
        places or "*",
        market,
        Outcome(outcome, after, stage, error),
        times or None,
        1.0 if share is None else share,
    )
