"""Warp-stall reasons: what each means, how every tool and age spells it, and the group that it belongs to.

The table is ``data/stall_reasons.csv``; the groups in it are the only list of groups in StallScope.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pandas as pd

from analysis.reference.stall_families import BY_NAME, FAMILIES, StallFamily
from analysis.settings import asset

__all__ = [
    "FAMILIES",
    "SPELLINGS",
    "StallFamily",
    "StallGroup",
    "StallMetric",
    "available",
    "family",
    "group_of",
    "groups",
    "load",
    "nvprof_classes",
    "resolve",
    "spelt",
]

#: Columns of the table that hold one family's spelling of a reason.
SPELLINGS = (
    "per_issue_active", "pascal", "per_warp_active", "pascal_pct", "warp_latency", "warps_cumulative", "pcsamp",
    "source_page", "pcsamp_not_issued",
)  # fmt: skip

#: Order and colours of the groups: Okabe and Ito's palette, safe for colour-blind readers.
_COLOURS: Final = {
    "global/local memory wait": "#0072B2",
    "memory pipe": "#56B4E9",
    "shared memory and MIO": "#009E73",
    "compute pipe": "#D55E00",
    "synchronisation": "#CC79A7",
    "fixed latency": "#E69F00",
    "front end": "#F0E442",
    "issue": "#999999",
    "other": "#C9C9C9",
}

_SUFFIX = re.compile(r"^(?P<base>[^.]+)(?:\.(?P<suffix>[a-z_]+))?$")
#: The collector may stand in front of a name. Sampling over time is a family of its own; samples of warps are not.
_PREFIX = re.compile(r"^(?P<collector>pmsampling|warpsampling|group):(?P<rest>.+)$")
_NOT_ISSUED = re.compile(r"^(?P<base>stall_\w+?)[ _]*\(?not[ _]issued\)?$", re.IGNORECASE)


@dataclass(frozen=True)
class StallMetric:
    """What a metric's name says.

    Attributes
    ----------
    family : str
        Name of the family, see `analysis.reference.stall_families`.
    reason : str
        Canonical reason; for nvprof one of its own classes, such as ``memory_dependency``.
    suffix : str
        Suffix without the dot: ``ratio``, ``pct``, ``max_rate``, ``sum``, ``avg`` ... or ``""``.
    """

    family: str
    reason: str
    suffix: str

    @property
    def rank(self) -> int | None:
        """Place of the suffix among those that carry the quantity, 0 the best; None for ``max_rate``."""
        suffixes = BY_NAME[self.family].suffixes
        return suffixes.index(self.suffix) if self.suffix in suffixes else None

    @property
    def scale(self) -> float:
        """Factor that takes the value to the family's unit; 0 where it can't be taken there."""
        return 0.0 if self.rank is None else BY_NAME[self.family].scale[self.rank]


@dataclass(frozen=True)
class StallGroup:
    """A group of reasons.

    Attributes
    ----------
    name : str
        Name, as in the table.
    colour : str
        Hex colour, the same everywhere.
    reasons : tuple of str
        Its canonical reasons, in the table's order.
    hatched : bool
        Drawn hatched: what the reasons do not account for.
    """

    name: str
    colour: str
    reasons: tuple[str, ...]
    hatched: bool = False


@lru_cache(maxsize=1)
def _table() -> pd.DataFrame:
    text = pd.read_csv(asset("data", "stall_reasons.csv"), dtype=str, keep_default_na=False)
    for column in ("min_cc", "max_cc"):
        text[column] = pd.to_numeric(text[column])
    return text.set_index("reason", drop=False)


def load() -> pd.DataFrame:
    """Return the table of stall reasons.

    Returns
    -------
    pd.DataFrame
        Index and column ``reason``; title, group, min_cc and max_cc (compute capability, NaN: open), one column a
        family with the metric's name in it (empty: not there), nvprof (class), label (details page), meaning, helps,
        source.
    """
    return _table().copy()


@lru_cache(maxsize=1)
def groups() -> tuple[StallGroup, ...]:
    """Return the groups in the order and with the colours in which every chart draws them.

    The last one, ``unaccounted``, has no reasons: it is what the reasons leave open of the total.
    """
    table = _table()
    named = tuple(
        StallGroup(name, colour, tuple(table.index[table["group"] == name])) for name, colour in _COLOURS.items()
    )
    return (*named, StallGroup("unaccounted", "#FFFFFF", (), hatched=True))


def group_of(reason: str) -> str:
    """Return the group of a reason or of an nvprof class; ``other`` where a class spans several groups."""
    table = _table()
    if reason in table.index:
        return str(table.at[reason, "group"])
    members = nvprof_classes().get(reason, ())
    found = {str(table.at[member, "group"]) for member in members}
    return found.pop() if len(found) == 1 else "other"


@lru_cache(maxsize=1)
def nvprof_classes() -> dict[str, tuple[str, ...]]:
    """Return nvprof's classes of stalls and the reasons that each stands for; old and new compare only in these."""
    table = _table()
    named = table[table["nvprof"] != ""]
    return {str(key)[len("stall_") :]: tuple(part.index) for key, part in named.groupby("nvprof")["nvprof"]}


def available(cc: float | str) -> tuple[str, ...]:
    """Return the reasons that a GPU of this compute capability can report; others are not available, not zero.

    Parameters
    ----------
    cc : float or str
        Compute capability, such as ``8.0`` or ``"12.0"``.
    """
    table = _table()
    value = float(cc)
    there = (table["min_cc"].fillna(0) <= value) & (table["max_cc"].fillna(1e9) >= value)
    return tuple(table.index[there])


def family(name: str) -> StallFamily:
    """Return a family by its name."""
    return BY_NAME[name]


@lru_cache(maxsize=1)
def spelt() -> dict[str, tuple[str, str]]:
    """Return every spelling without a suffix, and its family and reason."""
    table = _table()
    found = {str(name): (column, str(reason)) for column in SPELLINGS for reason, name in table[column].items() if name}
    for reason, row in table.iterrows():
        found[f"pmsampling:{row['warps_cumulative']}"] = ("pmsampling", str(reason))
        # Old ncu on Pascal, and newer names that stand beside the usual ones.
        spelling = str(row["pcsamp"]).removeprefix("smsp__pcsamp_warps_issue_stalled_")
        found[f"smsp__pcsamp_warp_stall_{spelling}"] = ("pcsamp", str(reason))
        for column in ("per_issue_active", "per_warp_active", "warp_latency", "warps_cumulative"):
            found.setdefault(str(row[column]).replace(str(reason), spelling), (column, str(reason)))
    found.update({f"stall_{name}": ("nvprof", name) for name in nvprof_classes()})
    # nvprof and the source page share three spellings; the source page has no other column that could tell, so the
    # importer of nvprof asks for its own family.
    for reason in ("sleeping", "not_selected"):
        found[f"stall_{reason}"] = ("source_page", reason)
    return found


@lru_cache(maxsize=1)
def _labels() -> dict[str, str]:
    labels = {str(label).lower(): str(reason) for reason, label in _table()["label"].items()}
    return {**labels, "stall no instructions": "no_instruction", "stall warpgroup arrive": "gmma"}


@lru_cache(maxsize=65536)
def resolve(metric_name: str) -> StallMetric | None:
    """Say which family, reason and suffix a metric's name stands for.

    Parameters
    ----------
    metric_name : str
        Internal name with or without suffix, label of the details page, or column of the source page.

    Returns
    -------
    StallMetric or None
        None for metrics that are no stall reason, for parts of a reason (``long_scoreboard_pipe_l1tex``), and for a
        suffix that the family does not have, such as ``.avg`` on a percentage.
    """
    name = metric_name.strip()
    label = _labels().get(name.lower())
    if label is not None:
        return StallMetric("per_issue_active", label, "ratio")
    collector = _PREFIX.match(name)
    if collector and collector["collector"] == "group":
        return None
    if collector and collector["collector"] == "warpsampling":
        name = collector["rest"]
    not_issued = _NOT_ISSUED.match(name)
    if not_issued:
        found = spelt().get(not_issued["base"])
        return StallMetric("source_page_not_issued", found[1], "") if found and found[0] == "source_page" else None
    parts = _SUFFIX.match(name)
    if parts is None:
        return None
    known = spelt().get(parts["base"])
    if known is None:
        return None
    suffix = parts["suffix"] or ""
    suffixes = BY_NAME[known[0]].suffixes
    if suffix not in suffixes and not (suffix == "max_rate" and "ratio" in suffixes):
        return None
    return StallMetric(known[0], known[1], suffix)


#: Parts of a reason that GPUs with ray-tracing cores print beside the whole.
_SUBVARIANT = re.compile(r"_(?:long_scoreboard_pipe_l1tex|mio_throttle_pipe_mio)(?=_|\.|$)")
_STALL_LIKE = re.compile(r"stall|warp_latency|warps_active_per_issue", re.IGNORECASE)


def looks_like_stall(metric_name: str) -> bool:
    """Say whether a name was meant as a stall metric, be it misspelt or a part of one."""
    return bool(_STALL_LIKE.search(metric_name)) and not _SUBVARIANT.search(metric_name)


@lru_cache(maxsize=4096)
def nearest(metric_name: str) -> str | None:
    """Return the valid stall metric that a misspelt name most likely meant, with the suffix that carries the value.

    Parameters
    ----------
    metric_name : str
        A name as the user asked the profiler for it.

    Returns
    -------
    str or None
        None where the name does not look like a stall metric, or nothing is near.
    """
    if not looks_like_stall(metric_name):
        return None
    name = metric_name.strip()
    base = name.split(".", 1)[0].split(":")[-1]
    for column in SPELLINGS:
        if column in ("source_page", "pcsamp_not_issued"):
            continue
        head, _, tail = str(load().at["wait", column]).partition("wait")
        found = re.fullmatch(f"{re.escape(head)}(?P<reason>\\w+){re.escape(tail)}", base)
        if found:
            reason = _nearest_reason(found["reason"], column)
            if reason is not None:
                return _with_suffix(str(load().at[reason, column]), column)
    close = difflib.get_close_matches(base, [key for key in spelt() if ":" not in key], n=1, cutoff=0.8)
    return _with_suffix(close[0], spelt()[close[0]][0]) if close else None


def _nearest_reason(text: str, column: str) -> str | None:
    """Return the reason that a word stands for: itself, the start of one, or the most similar one."""
    table = load()
    spelt = [str(reason) for reason, name in table[column].items() if name]
    for reason in spelt:
        if text in (reason, str(table.at[reason, "pcsamp"]).removeprefix("smsp__pcsamp_warps_issue_stalled_")):
            return reason
    starts = [reason for reason in spelt if reason.startswith(f"{text}_")]
    if len(starts) == 1:
        return starts[0]
    close = difflib.get_close_matches(text, spelt, n=1, cutoff=0.6)
    return close[0] if close else None


def _with_suffix(base: str, family_name: str) -> str:
    suffix = BY_NAME[family_name].suffixes[0]
    return f"{base}.{suffix}" if suffix else base
