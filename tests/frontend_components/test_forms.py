from typing import Annotated, Literal

from pydantic import BaseModel, Field

from backend.config import RunConfig
from frontend_components.forms import FormField, Suggestion, fields_of, suggest


class Plain(BaseModel):
    kind: Literal["plain"] = "plain"
    rate: float = Field(0.1, gt=0, le=1, description="How fast")


class Deep(BaseModel):
    kind: Literal["deep"] = "deep"
    depths: tuple[int, ...] = (1, 2)


class Everything(BaseModel):
    count: int = Field(3, ge=1, lt=10)
    label: str = "x"
    on: bool = False
    mode: Literal["a", "b"] = "a"
    decay: float | None = None
    shape: Annotated[Plain | Deep, Field(discriminator="kind")] = Plain()
    extra: Deep | None = None
    parts: tuple[Plain, ...] = (Plain(),)
    turns: tuple[str, ...] = ()
    table: dict[str, int] = {}


def by_name(fields: list[FormField]) -> dict[str, FormField]:
    return {field.name: field for field in fields}


def test_each_annotation_has_its_input():
    fields = by_name(fields_of(Everything))
    assert {name: field.kind for name, field in fields.items()} == {
        "count": "integer",
        "label": "text",
        "on": "switch",
        "mode": "choice",
        "decay": "number",
        "shape": "variants",
        "extra": "group",
        "parts": "list",
        "turns": "words",
        "table": "yaml",
    }
    assert [name for name, field in fields.items() if field.optional] == ["decay", "extra"]


def test_bounds_and_words_come_from_the_class():
    fields = by_name(fields_of(Everything))
    assert (fields["count"].low, fields["count"].low_in, fields["count"].high, fields["count"].high_in) == (
        1,
        True,
        10,
        False,
    )
    rate = by_name(fields["shape"].variants["plain"])["rate"]
    assert (rate.help, rate.low, rate.low_in) == ("How fast", 0, False)


def test_variants_start_from_their_own_defaults():
    shape = by_name(fields_of(Everything))["shape"]
    assert shape.tag == "kind"
    assert shape.start == {"plain": {"kind": "plain", "rate": 0.1}, "deep": {"kind": "deep", "depths": [1, 2]}}
    assert by_name(fields_of(Everything))["extra"].start == {"": {"kind": "deep", "depths": [1, 2]}}


def test_every_setting_of_a_run_has_an_input():
    def walk(fields: list[FormField]) -> list[FormField]:
        inner = [f for field in fields for f in [*field.fields, *(g for v in field.variants.values() for g in v)]]
        return fields + (walk(inner) if inner else [])

    fields = walk(fields_of(RunConfig))
    assert [field.name for field in fields if field.kind == "yaml"] == []
    assert {"branchgrpo", "dancegrpo"} <= by_name(fields)["method"].variants.keys()


def test_rewards_are_a_list_of_kinds_that_can_be_added():
    rewards = by_name(fields_of(RunConfig))["rewards"]
    assert (rewards.kind, rewards.tag) == ("list", "name")
    assert rewards.variants.keys() == rewards.start.keys()
    assert {"shapes", "nearest_truth", "learned", "pickscore", "ocr", "vision_language", "hook"} <= rewards.start.keys()
    assert rewards.start["nearest_truth"] == {"name": "nearest_truth", "weight": 1.0, "truths": 128}


def test_the_same_kinds_can_be_held_out():
    evaluation = by_name(by_name(fields_of(RunConfig))["evaluation"].fields)
    held_out = evaluation["rewards"]
    assert held_out.kind == "list"
    assert held_out.start == by_name(fields_of(RunConfig))["rewards"].start


def test_suggestions_stand_at_one_field_of_one_variant():
    known = [Suggestion(value="0.5", label="half")]
    fields = by_name(suggest(fields_of(Everything), "plain", "rate", known))
    for name in ("shape", "parts"):
        rates = {field.name: field.suggestions for field in fields[name].variants["plain"]}
        assert rates == {"kind": [], "rate": known}
    assert all(not field.suggestions for field in fields["shape"].variants["deep"])
    assert fields_of(Everything)[5].variants["plain"][1].suggestions == []  # the class is read afresh
