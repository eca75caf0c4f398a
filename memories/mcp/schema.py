"""Arguments and answers of tools as JSON Schema, and the check of what came in.

Types, bounds and unknown names are judged here; blank text, lengths, characters,
dates and scopes by the engine, so that each rule stands in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from memories.gateway import errors

Kind = Literal["string", "integer", "boolean"]
Value = str | int | bool
Schema = dict[str, Any]

_SHOWN_CHARS = 60
"""How much of a client's own name or value an error message repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument: a single plain JSON type. Without a default it is required."""

    name: str
    kind: Kind
    help: str
    default: Value | None = None
    minimum: int | None = None
    maximum: int | None = None
    max_chars: int | None = None
    choices: tuple[str, ...] = ()
    if_missing: Value | None = None
    """Stands in for a required argument left out, where the engine's own refusal
    says more than this module could."""

    @property
    def is_required(self) -> bool:
        return self.default is None

    @property
    def schema(self) -> Schema:
        stated = {
            "default": self.default,
            "minimum": self.minimum,
            "maximum": self.maximum,
            "maxLength": self.max_chars,
            "enum": list(self.choices) or None,
        }
        return {
            "type": self.kind,
            "description": self.help,
            **{key: value for key, value in stated.items() if value is not None},
        }


def text(
    name: str,
    help: str,
    *,
    max_chars: int | None = None,
    default: str | None = None,
    choices: tuple[str, ...] = (),
    if_missing: str | None = None,
) -> Argument:
    return Argument(
        name=name,
        kind="string",
        help=help,
        default=default,
        max_chars=max_chars,
        choices=choices,
        if_missing=if_missing,
    )


def whole(
    name: str,
    help: str,
    *,
    default: int,
    minimum: int,
    maximum: int | None = None,
) -> Argument:
    return Argument(
        name=name,
        kind="integer",
        help=help,
        default=default,
        minimum=minimum,
        maximum=maximum,
    )


def flag(name: str, help: str, *, default: bool) -> Argument:
    return Argument(name=name, kind="boolean", help=help, default=default)


def render_input_schema(arguments: Iterable[Argument]) -> Schema:
    """Return a flat object: several clients refuse unions, references and nesting."""
    listed = tuple(arguments)
    schema: Schema = {
        "type": "object",
        "properties": {argument.name: argument.schema for argument in listed},
        "additionalProperties": False,
    }
    required = [argument.name for argument in listed if argument.is_required]
    return {**schema, "required": required} if required else schema


def read_arguments(
    tool_name: str, arguments: Iterable[Argument], given: Mapping[str, object]
) -> dict[str, Value]:
    """Return every argument with its value or default.

    Raises: errors.Invalid naming the argument at fault and what it accepts.
    """
    listed = {argument.name: argument for argument in arguments}
    unknown = [name for name in given if name not in listed]
    if unknown:
        allowed = ", ".join(listed) if listed else "none"
        message = (
            f"{tool_name} has no argument {_shown(unknown[0])}; "
            f"its arguments are: {allowed}"
        )
        raise errors.Invalid(
            message, argument=unknown[0][:_SHOWN_CHARS], allowedArguments=list(listed)
        )
    missing = [
        name
        for name, a in listed.items()
        if a.is_required and a.if_missing is None and name not in given
    ]
    if missing:
        argument = listed[missing[0]]
        message = f'{tool_name} needs the argument "{argument.name}": {argument.help}'
        raise errors.Invalid(message, argument=argument.name)
    return {
        name: _read(argument, given[name]) if name in given else _default(argument)
        for name, argument in listed.items()
    }


def _default(argument: Argument) -> Value:
    value = argument.if_missing if argument.is_required else argument.default
    if value is None:
        raise LookupError(argument.name)  # required ones were looked for before
    return value


def _read(argument: Argument, value: object) -> Value:
    if argument.kind == "boolean":
        if isinstance(value, bool):
            return value
    elif argument.kind == "integer":
        number = _as_whole(value)
        if number is not None:
            return _require_bounds(argument, number)
    elif isinstance(value, str):
        return _require_choice(argument, value)
    message = f'argument "{argument.name}" must be {_accepts(argument)}, not {_kind_of(value)}'
    if value is None and not argument.is_required:
        message += "; leave it out if you have none"
    raise errors.Invalid(message, argument=argument.name)


def _as_whole(value: object) -> int | None:
    """JSON has one number type: 10.0 is a whole number; true is not a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None


def _require_bounds(argument: Argument, number: int) -> int:
    low, high = argument.minimum, argument.maximum
    if (low is None or number >= low) and (high is None or number <= high):
        return number
    message = (
        f'argument "{argument.name}" is {_shown(number)}; '
        f"it must be {_accepts(argument)}"
    )
    raise errors.Invalid(message, argument=argument.name)


def _require_choice(argument: Argument, value: str) -> str:
    if not argument.choices or value in argument.choices:
        return value
    message = f'argument "{argument.name}" is {_shown(value)}; it must be {_accepts(argument)}'
    raise errors.Invalid(message, argument=argument.name)


def _accepts(argument: Argument) -> str:
    if argument.choices:
        return " or ".join(f'"{choice}"' for choice in argument.choices)
    if argument.kind == "boolean":
        return "true or false"
    if argument.kind == "string":
        return "a text"
    if argument.maximum is None:
        return f"a whole number from {argument.minimum} up"
    return f"a whole number from {argument.minimum} to {argument.maximum}"


def _kind_of(value: object) -> str:
    """Name the JSON type; the value itself may be long."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return f"the number {_shown(value)}"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"


def _shown(value: str | int | float) -> str:
    quoted = f'"{value}"' if isinstance(value, str) else str(value)
    if len(quoted) > _SHOWN_CHARS:
        return quoted[:_SHOWN_CHARS] + "..."
    return quoted


ERROR_SCHEMA: Schema = {
    "type": "object",
    "description": "Present instead of all else when isError is true.",
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
    },
}


def render_output_schema(answer: type[msgspec.Struct]) -> Schema:
    """Return the answer's schema for clients: references inlined, nothing required.

    Nothing is required since some clients hold error results to it as well, and
    since a tight token budget leaves empty fields out.
    """
    (root,), parts = msgspec.json.schema_components(
        (answer,), ref_template="#/$defs/{name}"
    )
    schema = _inline(root, parts)
    schema["properties"] = {**schema["properties"], "error": ERROR_SCHEMA}
    return schema


def _inline(node: Schema, parts: Mapping[str, Schema]) -> Schema:
    """Keep type, properties, items and enum: the rest speaks to developers."""
    if "$ref" in node:
        return _inline(parts[node["$ref"].removeprefix("#/$defs/")], parts)
    if "enum" in node:
        return {"type": "string", "enum": node["enum"]}
    schema: Schema = {"type": node["type"]}
    if "properties" in node:
        schema["properties"] = {
            name: _inline(part, parts) for name, part in node["properties"].items()
        }
    if "items" in node:
        schema["items"] = _inline(node["items"], parts)
    return schema
