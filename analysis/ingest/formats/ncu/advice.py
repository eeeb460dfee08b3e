"""What to tell about an Nsight Compute profile: missing metrics, misspelt names, and the command that gets the rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from analysis.ingest.contract.cells import Ints
from analysis.ingest.formats.ncu.stall_metrics import Bools, Floats
from analysis.reference.stall_reasons import looks_like_stall, nearest, resolve

#: Exports everything that StallScope reads, under internal names and in base units. The page of details, which is what
#: ncu prints unasked, names no stall reason at all.
NCU = (
    "ncu --csv --page raw --print-units base --section WarpStateStats --section SchedulerStats --section SpeedOfLight "
    "--section MemoryWorkloadAnalysis --section Occupancy --section LaunchStats"
)

#: The same as a whole line, apart from the program's output; of a few launches out of many.
COMMAND = f"{NCU} --log-file profile.csv YOUR COMMAND"
COMMAND_FEW = f"{NCU} --launch-skip 100 --launch-count 200 --log-file job.csv JOB"

#: The same of nvprof, for GPUs that Nsight Compute doesn't support: those before Volta.
COMMAND_OLD = (
    "nvprof --csv --log-file profile.csv --metrics "
    "stall_memory_dependency,stall_exec_dependency,stall_inst_fetch,stall_sync,stall_texture,stall_pipe_busy,"
    "stall_constant_memory_dependency,stall_memory_throttle,stall_not_selected,stall_other YOUR COMMAND"
)

#: Units of the GPU that metric names begin with; a name that begins otherwise has lost its first letters.
_UNITS = frozenset(
    {
        "sm", "smsp", "dram", "lts", "ltc", "l1tex", "gpu", "gpc", "tpc", "fbpa", "fbp", "idc", "gcc", "launch", "sass",
        "device", "derived", "profiler", "memory", "inst", "thread", "group", "breakdown", "pcie", "nvlrx", "nvltx",
        "nvlink", "c2clink", "sys", "host", "fe", "gr", "mcc", "ctc", "crop", "zrop", "prop", "raster", "vpc", "pda",
        "pes", "mpc", "ram", "regions", "numa", "pm", "smsps", "l2", "lrc", "nvdla", "tex", "pri", "cbu", "source",
    }
)  # fmt: skip


def unavailable(metric: Ints, names: Sequence[str], missing: Bools) -> list[dict[str, object]]:
    """List the metrics that came as n/a in every row, with the valid name that was most likely meant.

    Returns
    -------
    list of dict
        metric, rows, nearest (None where the name is spelt right, or nothing tells what was meant).
    """
    if not missing.any():
        return []
    rows = np.bincount(metric, minlength=len(names))
    absent = np.bincount(metric[missing], minlength=len(names))
    out: list[dict[str, object]] = []
    for code in np.flatnonzero((absent > 0) & (absent == rows)):
        name = names[int(code)]
        better = None if resolve(name) else nearest(name) or completed(name, names)
        out.append({"metric": name, "rows": int(absent[code]), "nearest": better})
    return out


def partly_missing(metric: Ints, names: Sequence[str], missing: Bools) -> list[dict[str, object]]:
    """List the metrics that came without a value in some rows and with one in others.

    Returns
    -------
    list of dict
        metric, rows (without a value), of (all rows).
    """
    if not missing.any():
        return []
    rows = np.bincount(metric, minlength=len(names))
    absent = np.bincount(metric[missing], minlength=len(names))
    return [
        {"metric": names[int(code)], "rows": int(absent[code]), "of": int(rows[code])}
        for code in np.flatnonzero((absent > 0) & (absent < rows))
    ]


def misspelt(names: Sequence[str]) -> dict[str, str]:
    """Return names that look like stall metrics and are none, with the nearest valid one."""
    found = {}
    for name in names:
        if looks_like_stall(name) and "issue_stalled" in name and resolve(name) is None:
            better = nearest(name)
            if better is not None and better != name:
                found[name] = better
    return found


def corrupt(names: Sequence[str]) -> list[str]:
    """Return internal names that lost their first letters, as buffer faults of old versions leave them."""
    found = []
    whole = {name.rsplit(".", 1)[0] for name in names if _prefix(name) in _UNITS}
    for name in names:
        prefix = _prefix(name)
        if prefix in _UNITS or not re.fullmatch(r"[a-z0-9_]+(?:\.[a-z_0-9]+)+", name):
            continue
        rest = name.rsplit(".", 1)[0]
        shortened = prefix is not None and any(unit.endswith(prefix) for unit in _UNITS)
        if shortened or any(other.endswith(rest) for other in whole):
            found.append(name)
    return found


def completed(name: str, names: Sequence[str]) -> str | None:
    """Give a name back the first letters that it lost, from the file's other names that go on in the same way.

    Examples
    --------
    >>> completed("msp__issue_inst0.sum", ["smsp__issue_active.sum", "smsp__inst_issued.sum"])
    'smsp__issue_inst0.sum'
    """
    if _prefix(name) in _UNITS or not re.fullmatch(r"[a-z0-9_]+(?:\.[a-z_0-9]+)+", name):
        return None
    begin = name[: name.index("__") + 2] if "__" in name[:12] else name[:12]
    lost = Counter(
        other[: other.index(begin)]
        for other in names
        if begin in other and not other.startswith(begin) and _prefix(other) in _UNITS
    )
    if not lost or len(begin) < 4:
        return None
    (most, _), *_rest = lost.most_common(1)
    return f"{most}{name}" if _prefix(f"{most}{name}") in _UNITS else None


def _prefix(name: str) -> str | None:
    head = name.split(":")[-1]
    return head.split("__", 1)[0] if "__" in head else None


#: Shares above this are no noise of several passes, in percent.
_FAR_ABOVE = 110.0


def accounted_warning(share: Floats, names: pd.Series[str]) -> str | None:
    """Say how much of the warp cycles the reasons leave open, and for which kernels most; or that it is too much.

    Parameters
    ----------
    share : ndarray of float64
        Accounted share of each launch in percent, NaN where unknown.
    names : pd.Series
        Short name of each launch's kernel.
    """
    known = np.flatnonzero(~np.isnan(share))
    over = int((share[known] > _FAR_ABOVE).sum())
    much = ""
    if over:
        which = "its only launch" if len(known) == 1 else f"{over:,} of {len(known):,} launches"
        much = (
            f"In {which} the stall reasons add up to more than the warp cycles that they are a part of (up to "
            f"{share[known].max():.3g} %): reasons and total do not belong together."
        )
    low = known[share[known] < 95.0]
    if not len(low):
        return much or None
    worst = low[np.argsort(share[low], kind="stable")]
    if len(known) == 1:
        where = "its only launch"
    else:
        where = f"all {len(known):,} launches" if len(low) == len(known) else f"{len(low):,} of {len(known):,} launches"
    text = (
        f"In {where} the stall reasons account for less than 95 % of the warp cycles "
        f"(median {np.median(share[known]):.3g} %); the rest is shown as unaccounted."
    )
    poor = worst[share[worst] < 60.0]
    if len(poor):
        shown = ", ".join(f"{names.iloc[row]} {share[row]:.3g} %" for row in poor[:3])
        text += f" Lowest: {shown}."
    return f"{much} {text}".strip()


def missing_for_stalls(stall_reasons: Sequence[str], top_from_rules: bool, durations: bool) -> list[str]:
    """Say what a stall analysis of this profile lacks; empty when it lacks nothing."""
    out = []
    if not stall_reasons:
        rest = " beside the top one that the rules name" if top_from_rules else ""
        out.append(f"The file has no stall reasons{rest}.")
    elif len(stall_reasons) < 10:
        one = len(stall_reasons) == 1
        out.append(f"Only {len(stall_reasons)} stall {'reason has' if one else 'reasons have'} a value.")
    if not durations:
        out.append("The kernels have no duration, so all launches weigh the same.")
    return out


#: Words of the rule that name a reason, whatever the version writes around them.
_PHRASES = (
    (r"scoreboard dependency on an? L1TEX", "long_scoreboard"),
    (r"scoreboard dependency on an? MIO", "short_scoreboard"),
    (r"sibling warps at a CTA barrier", "barrier"),
    (r"fixed latency execution dependency", "wait"),
    (r"(?:math execution|execution) pipe(?:line)? to be available", "math_pipe_throttle"),
    (r"MIO[^.]{0,40}instruction queue", "mio_throttle"),
    (r"instruction queue for local and global", "lg_throttle"),
    (r"instruction queue for texture", "tex_throttle"),
    (r"immediate constant cache", "imc_miss"),
    (r"memory barrier", "membar"),
    (r"micro scheduler to select", "not_selected"),
    (r"next instruction fetched|instruction cache miss", "no_instruction"),
    (r"branch target to be computed", "branch_resolving"),
    (r"dispatch(?:er)?[ a-z]{0,20} stall|dispatcher holds back", "dispatch_stall"),
    (r"after EXIT|outstanding memory (?:instructions|operations)[^.]*drain|drain of outstanding", "drain"),
    (r"blocked, yielded,? or sle(?:ep|pt)|being asleep|sleeping", "sleeping"),
    (r"WARPGROUP\.(?:ARRIVES?|WAIT)", "gmma"),
    (r"miscellaneous hardware reason", "misc"),
)
_REASONS = tuple((re.compile(words, re.IGNORECASE), reason) for words, reason in _PHRASES)
_SHARE = re.compile(r"about (\d+(?:[.,]\d+)?)\s*% of the total average of (\d+(?:[.,]\d+)?) cycles", re.IGNORECASE)
_CYCLES = re.compile(r"spends (\d+(?:[.,]\d+)?) cycles being (?:stalled|blocked)", re.IGNORECASE)


@lru_cache(maxsize=65536)
def top_stall(rule: str, text: str) -> tuple[str | None, float | None]:
    """Return the stall reason that a rule's text names, and its share of warp cycles in percent.

    Parameters
    ----------
    rule : str
        Name of the rule; only rules about stalls are looked at.
    text : str
        Its description.

    Returns
    -------
    tuple
        (reason, share); None for each that the text does not state.
    """
    if "stall" not in rule.lower():
        return None, None
    spent = _CYCLES.search(text)
    share = _SHARE.search(text)
    if spent is None and share is None:
        return None, None
    sentence = text[spent.start() if spent else 0 :].split(". ", 1)[0]
    found = next((reason for words, reason in _REASONS if words.search(sentence)), None)
    if found is None:
        return None, None
    return found, float(share[1].replace(",", ".")) if share else None
