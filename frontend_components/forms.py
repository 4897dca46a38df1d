"""A settings class as form fields: bounds, choices and descriptions are read from the class, and from nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

Kind = Literal["integer", "number", "text", "choice", "switch", "numbers", "words", "group", "variants", "list", "yaml"]


class Suggestion(BaseModel):
    """A value that a text field may take, and what it is in words."""

    value: str
    label: str


class FormField(BaseModel):
    """One input. low and high are inclusive where low_in and high_in say so; optional: it may be left empty.

    fields: those of a group. variants: the fields of each class of a union, by the value of its `tag` field. A list has
    its items' variants. start: the values that a variant, or an optional group (under ""), begins with.
    suggestions: of a text field, where the values at hand are known.
    """

    name: str
    kind: Kind
    help: str = ""
    optional: bool = False
    low: float | None = None
    low_in: bool = True
    high: float | None = None
    high_in: bool = True
    choices: list[str] = []
    suggestions: list[Suggestion] = []
    fields: list[FormField] = []
    tag: str = ""
    variants: dict[str, list[FormField]] = {}
    start: dict[str, dict[str, Any]] = {}


def fields_of(settings: type[BaseModel]) -> list[FormField]:
    """The fields of a settings class, in its order."""
    return [field_of(name, info.annotation, info) for name, info in settings.model_fields.items()]


def field_of(name: str, annotation: Any, info: FieldInfo | None = None) -> FormField:
    """One field from its annotation and what pydantic keeps beside it."""
    facts: dict[str, Any] = {"name": name, "help": (info.description or "") if info else ""}
    facts |= bounds(info.metadata if info else ())
    members = [member for member in union_members(annotation) if member is not NoneType]
    facts["optional"] = len(members) < len(union_members(annotation))
    if len(members) > 1 and all(is_settings(member) for member in members):
        return FormField(kind="variants", **facts, **variants_of(members))
    kind = members[0] if len(members) == 1 else Any
    if get_origin(kind) is Literal:
        return FormField(kind="choice", **facts, choices=[str(choice) for choice in get_args(kind)])
    if is_settings(kind):
        start = {"": kind().model_dump(mode="json")} if facts["optional"] else {}
        return FormField(kind="group", **facts, fields=fields_of(kind), start=start)
    if get_origin(kind) in (tuple, list):
        return list_of(facts, get_args(kind)[0])
    plain: dict[Any, Kind] = {bool: "switch", int: "integer", float: "number", str: "text"}
    return FormField(kind=plain.get(kind, "yaml"), **facts)


def suggest(fields: Sequence[FormField], variant: str, name: str, suggestions: list[Suggestion]) -> list[FormField]:
    """The fields with suggestions at the field of this name in each variant of that name, at any depth."""

    def inside(one: FormField) -> FormField:
        variants = {
            tag: [
                field.model_copy(update={"suggestions": suggestions}) if (tag, field.name) == (variant, name) else field
                for field in suggest(fields_of_variant, variant, name, suggestions)
            ]
            for tag, fields_of_variant in one.variants.items()
        }
        return one.model_copy(update={"fields": suggest(one.fields, variant, name, suggestions), "variants": variants})

    return [inside(one) for one in fields]


def list_of(facts: dict[str, Any], item: Any) -> FormField:
    if item in (int, float):
        return FormField(kind="numbers", **facts)
    if item is str:
        return FormField(kind="words", **facts)
    members = union_members(item)
    if all(is_settings(member) and tag_of(member) for member in members):
        return FormField(kind="list", **facts, **variants_of(members))
    return FormField(kind="yaml", **facts)


def variants_of(members: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """The classes of a union, with the values that each starts from."""
    tags = {tag_of(member) for member in members}
    assert len(tags) == 1, f"the classes of a union are told apart by one field, not by {tags}"
    (tag,) = tags
    by_value = {str(get_args(member.model_fields[tag].annotation)[0]): member for member in members}
    return {
        "tag": tag,
        "variants": {value: fields_of(member) for value, member in by_value.items()},
        "start": {value: member().model_dump(mode="json") for value, member in by_value.items()},
    }


def tag_of(member: type[BaseModel]) -> str:
    """The field that tells the classes of a union apart: the first literal of one value. Empty when there is none."""
    literals = (name for name, info in member.model_fields.items() if get_origin(info.annotation) is Literal)
    return next((name for name in literals if len(get_args(member.model_fields[name].annotation)) == 1), "")


def union_members(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Annotated:
        return union_members(get_args(annotation)[0])
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def is_settings(kind: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def bounds(metadata: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in metadata:
        match one:
            case annotated_types.Ge(ge):
                found |= {"low": ge, "low_in": True}
            case annotated_types.Gt(gt):
                found |= {"low": gt, "low_in": False}
            case annotated_types.Le(le):
                found |= {"high": le, "high_in": True}
            case annotated_types.Lt(lt):
                found |= {"high": lt, "high_in": False}
    return found
