# SPDX-License-Identifier: GPL-2.0-or-later
"""The schema of files that describe labs, and its errors as texts for users."""
import difflib
import functools
import json
import os
import re

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lab.schema.json")
KINDS = {"string": "text", "integer": "a whole number", "number": "a number", "array": "a list",
         "boolean": "true or false", "object": "a mapping", "null": "nothing"}


def nearest(word, known):
    """The end of a sentence about an unknown word: the nearest known one, or all."""
    near = difflib.get_close_matches(str(word), known, 1, 0.6)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"use {'' if len(known) == 1 else 'one of '}{', '.join(known)}"


@functools.lru_cache
def schema():
    """The schema in its file."""
    with open(SCHEMA, encoding="utf-8") as f:
        return json.load(f)


@functools.lru_cache
def validator():
    """A validator of the schema."""
    # imported here, because only labs with a file need it
    import jsonschema  # pylint: disable=import-outside-toplevel

    def pattern(_validator, regex, value, _schema):
        # Python's $ matches before a newline at the end, too; that of ECMA 262 does not
        if isinstance(value, str) and not re.search(regex.replace("$", r"\Z"), value):
            yield jsonschema.ValidationError("")

    return jsonschema.validators.extend(jsonschema.Draft7Validator, {"pattern": pattern})(schema())


class Explainer:
    """Makes texts for users from errors of the schema."""

    def __init__(self, document):
        self.doc = document

    def got(self, path, value):
        """A value of the file, as the end of a sentence."""
        if isinstance(value, (list, dict)):
            return "a list" if isinstance(value, list) else "a mapping"
        if value is None:
            return "nothing"
        raw = self.doc.raw.get(path, str(value))
        return f"the text '{short(raw)}'" if isinstance(value, str) else short(raw)

    def problems(self, e):
        """Yields the Problems of one error."""
        path, says = tuple(e.absolute_path), e.schema.get("description") or ""
        is_key = "propertyNames" in list(e.absolute_schema_path)[-2:]
        if is_key:
            path += (e.instance,)
        value, limit = e.instance, e.validator_value
        if e.validator == "additionalProperties":
            known = list(e.schema["properties"])
            for key in (k for k in value if k not in known):
                yield self.doc.at(path + (key,), f"there is no key '{key}' here: "
                                  f"{nearest(key, known)}", key=True)
            return
        what = f"'{path[-1]}'" if path and isinstance(path[-1], str) else "this"
        if e.validator == "required":
            for name in (n for n in limit if n not in value):
                more = e.schema["properties"][name].get("description", "")
                yield self.doc.at(path, f"'{name}' is missing: add '{name}: ...', {more}")
            return
        text = {
            "type": lambda: self.wrong_type(path, value, limit, says),
            "enum": lambda: f"{self.got(path, value)} is not known here: {nearest(value, limit)}",
            "pattern": lambda: f"'{short(value)}' is not {e.schema['errorMessage']}",
        }.get(e.validator, lambda: self.limit(e.validator, what, (
            self.doc.raw.get(path, value)), limit) + more_of(says))()
        yield self.doc.at(path, text, key=is_key)

    def wrong_type(self, path, value, kinds, says):
        """The text for a value of a wrong type."""
        kinds = [kinds] if isinstance(kinds, str) else kinds
        expected = " or ".join(KINDS[k] for k in kinds)
        hint = more_of(says)
        if "string" in kinds and isinstance(value, (bool, int, float)):
            hint = ": put it in quotes"
        elif kinds == ["array"] and not isinstance(value, (dict, type(None))):
            hint = f": write [{short(self.doc.raw[path])}]"
        elif value is None:
            hint = (hint or ": write it") + ", or leave the key out"
        return f"{expected} is expected here, not {self.got(path, value)}{hint}"

    @staticmethod
    def limit(kind, what, value, limit):
        """The text for a value that is too small or too large."""
        if kind in ("minProperties", "minItems", "minLength"):
            return f"{what} is empty: write at least one entry"
        if kind in ("maxProperties", "maxItems"):
            return f"{what} has {len(value)} entries: {limit} at most"
        if kind == "exclusiveMinimum":
            return f"{value} is too small: it must be more than {limit}"
        return f"{short(value)} is too {'small' if kind == 'minimum' else 'large'}: {limit} at " + (
            "least" if kind == "minimum" else "most")


def short(value):
    """A value of the file in one line of at most 60 characters."""
    return json.dumps(str(value)[:60], ensure_ascii=False)[1:-1]


def more_of(says):
    """A description as the end of a sentence."""
    return f": {says}" if says else ""
