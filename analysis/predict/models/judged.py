"""Every pair of a place, judged at a limit by the one decision, and what that comes to in a sentence."""

from __future__ import annotations

from contextlib import suppress

import pandas as pd

from analysis.errors import ModelRefusedError
from analysis.interference.partners import safe_partners
from analysis.numbers import slowdown
from analysis.predict.models.activemodel import answering
from analysis.predict.models.many import guess_of
from analysis.reference.origin import word
from analysis.store.database import Database

#: Verdicts in the order in which they are counted, with what is said of that many pairs.
_SAID = {"share": "may share", "don't": "should not share", "measure first": "are to be measured first"}


def judged_pairs(
    database: Database,
    dataset: str,
    gpu: str,
    mechanism: str | None,
    limit: float,
    workload: str | None = None,
    model_id: str | None = None,
) -> pd.DataFrame:
    """Judge the pairs of a place, or the partners of one job; what answers for the data set stands in for runs.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu, mechanism
        As stored.
    limit : float
        Largest slowdown that each job may have.
    workload : str, optional
        Only pairs with this one, from its side.
    model_id : str, optional
        What is asked about pairs that did not run; by default what answers for the data set.

    Returns
    -------
    pd.DataFrame
        As `analysis.interference.partners.safe_partners`.
    """
    guess = None
    with suppress(ModelRefusedError):  # of another version: what ran, and the pairs, stand in
        guess = guess_of(database, model_id or answering(database, dataset), gpu, mechanism or "", limit)
    return safe_partners(database, dataset, gpu, mechanism or None, limit=limit, workload=workload, guess=guess)


def in_short(pairs: pd.DataFrame, gpu: str, limit: float, *, simulated: bool = False) -> str:
    """Say how many pairs may share at the limit, on what that rests, and which is the best.

    Parameters
    ----------
    pairs : pd.DataFrame
        As `judged_pairs` gives them.
    gpu : str
        Where.
    limit : float
        The limit they were judged at.
    simulated : bool
        Whether a simulator ran them.
    """
    counts = pairs["verdict"].value_counts()
    said = [f"{counts[verdict]:,} {words}" for verdict, words in _SAID.items() if verdict in counts]
    ran = int(pairs["evidence"].isin(["measured", "did not run"]).sum())
    counted = " and ".join(filter(None, (", ".join(said[:-1]), said[-1])))
    known = f"all {word(simulated)}" if ran == len(pairs) else f"{ran:,} {word(simulated)}, {len(pairs) - ran:,} not"
    text = f"At the limit of {limit:g} x, of {len(pairs):,} pairs on {gpu}, {counted} ({known})."
    unknown = int(((pairs["verdict"] == "measure first") & (pairs["memory"] == "unknown")).sum())
    if unknown:
        text += f" Of {unknown:,} to be measured first the memory is unknown: a peak of each job alone settles it."
    good = pairs[pairs["verdict"] == "share"].dropna(subset=["figure"]).sort_values("figure", kind="stable")
    if len(good):
        best = good.iloc[0]
        beside = "a twin" if best["partner"] == best["workload"] else best["partner"]
        text += f" The gentlest that may: {best['workload']} with {beside}, {slowdown(float(best['figure']))} at worst."
    return text
