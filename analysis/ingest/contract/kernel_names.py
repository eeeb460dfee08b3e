"""Short names of kernels: without return type, namespaces, template arguments and parameters, mangled or not.

The full name stays what a kernel is identified by; the short one is for charts and for pairing kernels of two builds.
"""

from __future__ import annotations

import re
from functools import lru_cache

_OPENING = {"(": ")", "<": ">", "{": "}", "[": "]"}
_ANONYMOUS = re.compile(r"\(anonymous namespace\)|\(anonymous class\)|<unnamed>|`anonymous-namespace'|^void unnamed>")
_OPERATOR = re.compile(r"operator\s*(?:\(\)|\[\]|<<=?|>>=?|<=>|<=|>=|->\*?|<|>|[^\w\s(]+)")
_LAMBDA = re.compile(r"\{lambda\([^{}]*\)#(\d+)\}|\(lambda at [^)]*\)|'lambda(\d*)'\([^)]*\)")
_MANGLED_PART = re.compile(r"(\d+)")
#: Words in front of a name that are no part of it.
_LEADING = re.compile(r"^(?:static|inline|__global__|extern|const)\s+")


@lru_cache(maxsize=65536)
def short_name(name: str) -> str:
    """Return the name of a kernel without what surrounds it.

    Parameters
    ----------
    name : str
        As a profiler prints it: demangled, function only, or mangled.

    Returns
    -------
    str
        The function's own name; the whole text where none can be made out.

    Examples
    --------
    >>> short_name("void at::native::vectorized_elementwise_kernel<4, float>(int, float)")
    'vectorized_elementwise_kernel'
    >>> short_name("_ZN2at6native18elementwise_kernelILi128EEEvi")
    'elementwise_kernel'
    """
    text = name.strip()
    if text.startswith("CUDA graph"):
        return text
    if text.startswith(("_Z", "__Z")):
        return _from_mangled(text) or text
    text = _ANONYMOUS.sub("anonymous", text)
    text = _LAMBDA.sub(lambda found: f"lambda{found[1] or found[2] or ''}", text)
    text = _OPERATOR.sub("operator", text)
    text = re.sub(r"decltype\([^()]*\)", "auto", text)
    bare = _outside_brackets(text)
    bare = _LEADING.sub("", bare.strip())
    # What is left is "type ns::ns::name"; a name may itself hold blanks only in odd exports.
    last = bare.split("::")[-1].strip()
    words = last.split()
    found = words[-1] if words else ""
    return found.lstrip("*&") or text or name


def _outside_brackets(text: str) -> str:
    """Return the text in front of the parameters, without anything in angle brackets or braces."""
    out: list[str] = []
    depth: list[str] = []
    for position, char in enumerate(text):
        if depth and char == depth[-1]:
            depth.pop()
        elif char in _OPENING:
            if char == "(" and not depth and out and _is_name(out):
                return "".join(out)
            depth.append(_OPENING[char])
        elif not depth and not (char == ">" and text[position - 1 : position] != "-"):
            out.append(char)
    return "".join(out)


def _is_name(out: list[str]) -> bool:
    """Say whether the text so far ends a name, so that a bracket begins its parameters."""
    tail = "".join(out).rstrip()
    return bool(tail) and not tail.endswith("::")


def _from_mangled(text: str) -> str | None:
    """Read the last name of an Itanium-mangled symbol: names are written with their length in front."""
    position = text.index("Z") + 1
    while position < len(text) and text[position] in "NKVrRO":
        position += 1
    if text.startswith("St", position):
        position += 2
    last: str | None = None
    while True:
        found = _MANGLED_PART.match(text, position)
        if found:
            length = int(found[1])
            start = found.end()
            if length == 0 or start + length > len(text):
                return last
            part = text[start : start + length]
            if not part.startswith(("_GLOBAL__N", "_INTERNAL")):
                last = part
            position = start + length
        elif text.startswith("I", position) and last is not None:
            end = _end_of_template(text, position)
            if end is None or not _MANGLED_PART.match(text, end):
                return last
            position = end
        else:
            return last


def _end_of_template(text: str, start: int) -> int | None:
    """Return the place after template arguments, None where they can't be followed."""
    depth, position = 0, start
    while position < len(text):
        char = text[position]
        found = _MANGLED_PART.match(text, position)
        if found:
            position = found.end() + int(found[1])
            continue
        if char == "L":  # a literal: type, value, E
            end = text.find("E", position)
            if end < 0:
                return None
            position = end + 1
            continue
        if char in "INJX":
            depth += 1
        elif char == "E":
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    return None
