"""YAML into frozen pydantic models; every refusal names the file, the line and the nearest known key."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from dropgate.errors import InputError

KeyPath = tuple[str | int, ...]


class Strict(BaseModel):
    """A frozen model that refuses unknown keys and does not convert types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


ModelT = TypeVar("ModelT", bound=BaseModel)


class Document:
    """One YAML mapping, with the line on which each key stands."""

    def __init__(self, path: Path, data: dict[str, Any], origins: Mapping[KeyPath, str]) -> None:
        self.path = path
        self.data = data
        self.origins = origins
        """By key path, where the value was written: file and line, or the assignment that replaced it."""

    def where(self, key_path: KeyPath) -> str:
        """Say where ``key_path``, or the nearest key above it, was written."""
        above = (key_path[:end] for end in range(len(key_path), 0, -1))
        return next((self.origins[path] for path in above if path in self.origins), str(self.path))


def read_document(path: Path) -> Document:
    """Read one YAML mapping.

    Raises:
        InputError: the file is missing, unreadable, not YAML, not a mapping, or has a key twice.

    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    origins: dict[KeyPath, str] = {}
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            _note_origins(path, root, (), origins)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"{path}{line}: not valid YAML: {problem}") from None
    except RecursionError:
        raise InputError(f"{path}: not valid YAML: nested too deeply") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: a mapping of keys to values is expected")
    return Document(path, data, origins)


def _note_origins(path: Path, node: yaml.Node, key_path: KeyPath, origins: dict[KeyPath, str]) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in seen:
                raise InputError(f"{path}:{line}: key '{key}' stands twice; first on line {seen[key]}")
            seen[key] = line
            origins[(*key_path, key)] = f"{path}:{line}"
            _note_origins(path, value_node, (*key_path, key), origins)
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            origins[(*key_path, index)] = f"{path}:{child.start_mark.line + 1}"
            _note_origins(path, child, (*key_path, index), origins)


def override(document: Document, assignment: str) -> Document:
    """Return the document with one ``dotted.key=value`` replaced; the value is read as YAML.

    Raises:
        InputError: no ``=``, a value that is not YAML, or a path through something that is no mapping.

    """
    dotted, equals, text = assignment.partition("=")
    if not equals or not dotted:
        raise InputError(f"--set {assignment}: KEY=VALUE is expected, such as workloads.prefix.requests=16")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(f"--set {assignment}: the value is not valid YAML") from None
    keys = dotted.split(".")
    data = dict(document.data)
    level = data
    for key in keys[:-1]:
        below = level.get(key, {})
        if not isinstance(below, dict):
            raise InputError(f"--set {assignment}: '{key}' holds no keys")
        level[key] = dict(below)
        level = level[key]
    level[keys[-1]] = value
    return Document(document.path, data, {**document.origins, tuple(keys): f"--set {assignment}"})


def validate(document: Document, model: type[ModelT]) -> ModelT:
    """Turn the document into ``model``.

    Raises:
        InputError: one line for the first thing that does not fit, with file, line, key and what was expected.

    """
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        # A misspelt key is also a missing one; the unknown key is what to mend.
        first = min(error.errors(include_url=False), key=lambda found: found["type"] != "extra_forbidden")
        key_path = _key_path(document.data, first)
        raise InputError(_explain(document, model, key_path, first)) from None


def _key_path(data: Any, error: Any) -> KeyPath:
    """Reduce pydantic's location to keys of the file: it also names members of unions."""
    key_path: list[str | int] = []
    value = data
    for step in error["loc"]:
        in_mapping = isinstance(value, dict) and step in value
        in_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if in_mapping or in_list:
            key_path.append(step)
            value = value[step]
    if error["type"] == "missing":
        key_path.append(error["loc"][-1])
    return tuple(key_path)


def _explain(document: Document, model: type[BaseModel], key_path: KeyPath, error: Any) -> str:
    where, dotted = document.where(key_path), ".".join(map(str, key_path)) or "document"
    if error["type"] == "extra_forbidden":
        known = _known_keys(model, key_path[:-1])
        near = difflib.get_close_matches(str(key_path[-1]), known, n=1, cutoff=0.5)
        hint = f"; did you mean '{near[0]}'?" if near else f"; known keys: {', '.join(sorted(known))}"
        return f"{where}: unknown key '{dotted}'{hint}"
    if error["type"] == "missing":
        return f"{where}: key '{dotted}' is missing"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    shown = repr(error.get("input"))
    return f"{where}: '{dotted}': {message}" + (f" (found {shown})" if len(shown) < 80 else "")


def _known_keys(model: type[BaseModel], key_path: KeyPath) -> list[str]:
    """List the keys that the model at ``key_path`` knows, over all members of a union."""
    models = [model]
    for part in key_path:
        below: list[type[BaseModel]] = []
        for candidate in models:
            field = _field(candidate, part)
            below += _models_in(field.annotation) if field else [candidate]
        models = below
    return [field.alias or name for candidate in models for name, field in candidate.model_fields.items()]


def _field(model: type[BaseModel], key: str | int) -> Any:
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            return field
    return None


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [found for argument in typing.get_args(annotation) for found in _models_in(argument)]
