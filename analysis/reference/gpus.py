"""The GPUs that StallScope knows: their published figures, and one name for the many ways people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache

import pandas as pd

from analysis.settings import asset

#: Words that vendors and drivers put around a name and that don't tell one GPU from another.
_NOISE = frozenset({"nvidia", "tesla", "geforce", "quadro", "gpu", "generation", "dgxs", "fhhl"})
_FORM = {"sxm": "SXM", "hbm3": "SXM", "pcie": "PCIe"}
_TEXT = ("family", "architecture", "cc", "aliases", "source")


@lru_cache(maxsize=1)
def _table() -> pd.DataFrame:
    kinds = dict.fromkeys(_TEXT, str)
    parts = [
        pd.read_csv(asset("data", name), index_col="name", dtype=kinds, keep_default_na=False, na_values=[""]).assign(
            simulated=simulated
        )
        for name, simulated in (("gpus.csv", False), ("gpus_simulated.csv", True))
    ]
    frame = pd.concat(parts)
    numbers = frame.columns.difference([*_TEXT, "mig", "simulated"])
    frame[numbers] = frame[numbers].astype(float)
    frame["mig"] = frame["mig"].astype(bool)
    frame["aliases"] = frame["aliases"].fillna("")
    return frame


def load(*, simulated: bool = False) -> pd.DataFrame:
    """Return the table of GPUs, one row a GPU, in the file's order.

    Parameters
    ----------
    simulated : bool
        With those that only a cycle-level simulator has: for looking one up by its name, never to offer them.

    Returns
    -------
    pd.DataFrame
        Index ``name``. Text: family (``V100`` for V100-16GB and V100-32GB), architecture, cc, aliases, source. Bool:
        mig. Float, NaN where a variant decides it or the vendor doesn't state it: sm_count, schedulers_per_sm,
        max_warps_per_sm, max_blocks_per_sm, registers_per_sm (32 bit each), shared_memory_kib_per_sm,
        fp32_lanes_per_sm, boost_clock_mhz, memory_mib (nominal), memory_gbps (1e9 bytes a second), l2_mib,
        pcie_generation.
    """
    frame = _table()
    return (frame if simulated else frame[~frame["simulated"]]).drop(columns="simulated")


def canonical(text: str) -> str:
    """Return the one name of a GPU for any way of writing it; unknown text stays as it is.

    Parameters
    ----------
    text : str
        As a driver, a profiler or a person writes it.

    Returns
    -------
    str
        A name of `load`, or the text without blanks around it.

    Examples
    --------
    >>> canonical("Tesla V100-SXM2-16GB")
    'V100-16GB'
    >>> canonical("NVIDIA GeForce RTX 4090 Laptop GPU")
    'NVIDIA GeForce RTX 4090 Laptop GPU'
    """
    return _known(text) or text.strip()


def known(name: str) -> bool:
    """Say whether `load` has figures for this GPU, however its name is written."""
    return _known(name) is not None


def from_cc(cc: str) -> list[str]:
    """Return the GPUs of a compute capability such as ``8.0``, those without a variant first."""
    return list(_by_cc().get(cc.strip().removeprefix("CC").strip(), ()))


def family_of(name: str) -> str:
    """Return the family of a GPU of the table, such as ``V100`` for ``V100-16GB``.

    Raises
    ------
    KeyError
        If the table has no such name.
    """
    return str(_table().at[name, "family"])


@lru_cache(maxsize=1)
def _by_cc() -> dict[str, list[str]]:
    """Map each compute capability to its GPUs; asked for every file, so that no frame is searched."""
    found: dict[str, list[str]] = {}
    for name, cc in load()["cc"].items():
        found.setdefault(str(cc), []).append(str(name))
    return found


def matches(name: str, wanted: str) -> bool:
    """Say whether a GPU is the wanted one, or a variant of it when only the family is named.

    Parameters
    ----------
    name : str
        A GPU, such as ``V100-32GB``.
    wanted : str
        A GPU or a family, such as ``V100``; upper and lower case are the same.
    """
    have, want = canonical(name), canonical(wanted)
    if have.casefold() == want.casefold():
        return True
    frame = _table()
    return have in frame.index and str(frame.at[have, "family"]) == want


def resolve(wanted: str | None, available: Iterable[str]) -> list[str]:
    """Return those of the available GPUs that a user's word means.

    Parameters
    ----------
    wanted : str or None
        The user's word; None or blank means all.
    available : iterable of str
        Names as stored.

    Returns
    -------
    list of str
        In the order of ``available``, each once; empty when none fits.
    """
    names = list(dict.fromkeys(available))
    if wanted is None or not wanted.strip():
        return names
    return [name for name in names if matches(name, wanted)]


def locate(text: str) -> tuple[str, int, int] | None:
    """Find a GPU's name inside a longer text, such as a file name.

    Parameters
    ----------
    text : str
        For example ``resnet50_bs64_amp_A100``.

    Returns
    -------
    tuple of str, int and int, or None
        The canonical name, and the place (start, end) where it stands; the last one when there are several.
    """
    found = None
    for match in _pattern().finditer(text):
        name = _known(match.group())
        if name is not None:
            found = (name, match.start(), match.end())
    return found


def _known(text: str) -> str | None:
    """Take a name apart into model, memory and form factor, and look the three up."""
    plain = re.sub(r"\(\s*\d+\s*\)\s*$|\bmig\b.*$", " ", text.casefold())
    words = [word for word in re.split(r"[\s_\-/]+", plain) if word and word not in _NOISE]
    memory: float | None = None
    form: str | None = None
    model: list[str] = []
    for word in words:
        size = re.fullmatch(r"(\d+)gi?b", word)
        kind = re.fullmatch(r"(sxm|hbm3|pcie)\d?", word)
        if size:
            memory = float(size[1]) * 1024
        elif kind:
            form = _FORM[kind[1]]
        else:
            model.append(word)
    # A spelling that stands as a whole in the table wins: in "GH200 480GB" the size is the processor's memory.
    exact_spelling = _by_model().get("".join(words), [])
    if len(exact_spelling) == 1:
        return exact_spelling[0]
    rows = _by_model().get("".join(model))
    if rows is None:
        return None
    frame = _table()
    sizes = {name: float(str(frame.at[name, "memory_mib"])) for name in rows}
    if form and (exact := [name for name in rows if name.endswith(f"-{form}")]):
        rows = exact
    elif memory is None and len(rows) > 1:
        rows = [name for name in rows if name == frame.at[name, "family"]]
    if memory is not None:
        # Names like "H100 80GB" fit several forms: then only the family is certain.
        fitting = [name for name in rows if sizes[name] == memory]
        family = [name for name in rows if name == frame.at[name, "family"] and math.isnan(sizes[name])]
        rows = fitting if len(fitting) == 1 else family if fitting else []
    return rows[0] if len(rows) == 1 else None


@lru_cache(maxsize=1)
def _by_model() -> dict[str, list[str]]:
    """Map the written model, without blanks, to the rows of its family."""
    frame = _table()
    models: dict[str, list[str]] = {}
    for name, row in frame.iterrows():
        for spelling in (row["family"], *row["aliases"].split(";")):
            if spelling:
                models.setdefault(re.sub(r"[\s\-]+", "", spelling.casefold()), []).append(str(name))
    return models


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    frame = load()
    spellings = {alias for row in frame["aliases"] for alias in row.split(";") if alias} | set(frame["family"])
    # Digits alone (3090) are too weak inside a file name, where they are as likely a step or a date.
    words = sorted((s for s in spellings if not s[0].isdigit()), key=len, reverse=True)
    models = "|".join(r"[\s_\-]?".join(map(re.escape, word.split())) for word in words)
    variant = r"(?:[\s_\-]?(?:sxm\d?|pcie|hbm3|\d+gb))*"
    return re.compile(
        rf"(?<![a-z0-9])(?:{models}){variant}(?![a-z0-9])(?![\s_\-]?(?:laptop|max-?q|super|ti|d)(?![a-z0-9]))",
        re.IGNORECASE,
    )
