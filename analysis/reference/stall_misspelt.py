"""What a misspelt stall metric was meant to be."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache

from analysis.reference.stall_families import BY_NAME
from analysis.reference.stall_reasons import SPELLINGS, load, spelt

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
