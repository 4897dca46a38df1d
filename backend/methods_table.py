"""The tables of docs/methods.md, written from the settings classes: `python -m backend.methods_table`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from backend.config import AnyMethod
from backend.methods.settings import Settings

Row = tuple[str, str, str]
DOCUMENT = Path(__file__).parent.parent / "docs" / "methods.md"
_TABLE = re.compile(r"(<!-- settings of (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def methods() -> dict[str, type[Settings]]:
    """Every method of the union, by name."""
    found: dict[str, type[Settings]] = {}
    for member in _members(AnyMethod):
        found[member.model_fields["name"].default] = member
    return found


def table(settings: type[Settings]) -> str:
    """Setting, default, meaning: a Markdown table, settings inside settings after their own."""
    head = ["| setting | default | what it is, and where the default is from |", "|---|---|---|"]
    rows = [f"| `{name}` | {default} | {words} |" for name, default, words in _rows(settings)]
    return "\n".join([*head, *rows, ""])


def filled(text: str) -> str:
    """The document with every table between its markers written anew. Raises ValueError for an unknown method."""
    known = methods()

    def write(match: re.Match[str]) -> str:
        if match[2] not in known:
            raise ValueError(f"docs/methods.md: {match[2]!r} is no method; there are {', '.join(known)}")
        return match[1] + table(known[match[2]]) + match[3]

    return _TABLE.sub(write, text)


def _rows(settings: type[Settings]) -> Iterator[Row]:
    for name, info in settings.model_fields.items():
        if get_origin(info.annotation) is Literal and len(get_args(info.annotation)) == 1:
            continue  # the tag that names the class
        inner = [member for member in _members(info.annotation) if _is_settings(member)]
        tagged = {member.model_fields["kind"].default: member for member in inner if "kind" in member.model_fields}
        choices = f" ({', '.join(tagged)})" if tagged else ""
        yield name, _written(info.default), (info.description or "").replace("|", "\\|") + choices
        if tagged:
            yield from _variants(name, tagged)
        else:
            for below, default, words in (row for member in inner for row in _rows(member)):
                yield f"{name}.{below}", default, words


def _variants(name: str, tagged: dict[str, type[Settings]]) -> Iterator[Row]:
    """The fields of the classes of a union; one that several classes share is written once."""
    owners: dict[Row, list[str]] = {}
    for kind, member in tagged.items():
        for row in _rows(member):
            owners.setdefault(row, []).append(kind)
    for (below, default, words), kinds in owners.items():
        yield f"{name}.{below}", default, f"{words} [{', '.join(kinds)} only]"


def _written(value: Any) -> str:
    """A default as YAML has it."""
    if isinstance(value, Settings):
        return str(value.model_dump()["kind"])
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _members(annotation: Any) -> list[Any]:
    """The classes of a union, without None; a union has its classes in the order of its text."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [member for one in get_args(annotation) for member in _members(one) if member is not NoneType]
    return [annotation]


def _is_settings(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Settings)


if __name__ == "__main__":
    DOCUMENT.write_text(filled(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
