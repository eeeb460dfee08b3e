"""Rule rows of Nsight Compute: advice in prose, of which one rule names the top stall reason and its share."""

from __future__ import annotations

import re
from functools import lru_cache

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
