"""What every part of the settings has in common: unknown keys are errors, `key:` with nothing is not set."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator


def lasting(seconds: float, why: str) -> Any:
    """A duration with its default, and the reason for it."""
    return Field(timedelta(seconds=seconds), description=why)


def without_nulls(model: type[BaseModel], data: Any) -> Any:
    """YAML gives null for `key:`; people mean "not set". A null under an unknown key stays an error."""
    if not isinstance(data, dict):
        return data
    return {key: value for key, value in data.items() if value is not None or key not in model.model_fields}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_not_set(cls, data: Any) -> Any:
        return without_nulls(cls, data)
