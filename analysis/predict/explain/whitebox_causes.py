"""Why the white box says what it says: which resource is taken by whom, in figures that add up and in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.predict.explain.explanation import TAKEN, Contribution, Explanation, causes, sentence, summed
from analysis.predict.frame.terms import WHITE_BOX
from analysis.predict.frame.whitebox_sets import LAUNCHES, SetQuery, causes_of
from analysis.predict.models.gather import Gathered
from analysis.sharing.causes import RESOURCES, SHARE, TURNS, Cause

METHOD = (
    "exact: the queueing network solved again with every subset of the co-runners' resources served elsewhere "
    "(Shapley values of ln S)"
)

#: Group of each part, beside the groups of other features.
_GROUPS = {
    "issue slots": "compute",
    "arithmetic pipes": "compute",
    "shared memory and load/store units": "shared memory and load/store",
    "L2 and DRAM bandwidth": "DRAM and caches",
    "room in L2": "DRAM and caches",
    TURNS: "turns and room",
    SHARE: "share of the GPU",
}


#: All that a slowdown is made of.
PARTS = frozenset(_GROUPS)


def explained(found: Gathered) -> list[Explanation] | None:
    """Break the white box's figures for a set down by resource and co-runner.

    Parameters
    ----------
    found : Gathered
        The set, with what was profiled of each job.

    Returns
    -------
    list of Explanation or None
        One a job; None where the network has no figure of its own for the set.
    """
    table = pd.DataFrame(list(found.profiles.values()))
    if LAUNCHES not in table:
        return None
    table.index = pd.MultiIndex.from_tuples([(found.gpu, job) for job in found.profiles], names=["gpu", "workload"])
    jobs = tuple(str(job) for job in found.X["workload"])
    parts = causes_of(table, SetQuery(found.gpu, found.mechanism, jobs, found.caps))
    if parts is None:
        return None
    predicted = found.X[WHITE_BOX].to_numpy(dtype=np.float64)
    return [_explanation(member, jobs, parts[member], float(said)) for member, said in enumerate(predicted)]


def _explanation(member: int, jobs: Sequence[str], parts: Sequence[Cause], predicted: float) -> Explanation:
    own, others = jobs[member], tuple(jobs[:member]) + tuple(jobs[member + 1 :])
    listed = _listed(jobs, parts)
    text = sentence(own, 0.0, predicted, [(one.feature, one.shap) for one in listed], "alone")
    return Explanation(
        workload=own,
        co_workloads=others,
        base=0.0,
        prediction=predicted,
        contributions=listed,
        by_whose=summed(listed, "whose"),
        by_group=summed(listed, "group"),
        sentence=f"{text} {oversubscribed(jobs, parts)}".strip(),
        method=METHOD,
        additivity_error=abs(sum(one.shap for one in listed) - predicted),
        start="alone",
    )


def _listed(jobs: Sequence[str], parts: Sequence[Cause]) -> tuple[Contribution, ...]:
    """Return the parts as people read them, the largest first; co-runners of one name are one."""
    found: dict[str, Contribution] = {}
    for one in parts:
        label = one.resource if one.by is None else f"{one.resource}{TAKEN}{jobs[one.by]}"
        before = found[label].shap if label in found else 0.0
        found[label] = Contribution(
            label, "target" if one.by is None else "co-runners", "white box", _GROUPS[one.resource], _use(one),
            before + one.part,
        )  # fmt: skip
    return tuple(sorted(found.values(), key=lambda part: -abs(part.shap)))


def table(found: Sequence[Explanation]) -> pd.DataFrame:
    """Return the parts of a set's explanations for `charts.cause_bars`: workload, by, resource, value, shap, factor."""
    rows = []
    for one in found:
        for part in one.contributions:
            resource, _, by = part.feature.partition(TAKEN)
            rows.append((one.workload, by, resource, part.value, part.shap, part.factor))
    return pd.DataFrame(rows, columns=["workload", "by", "resource", "value", "shap", "factor"])


def _use(one: Cause) -> str:
    """Say how much of a resource each uses alone."""
    if np.isnan(one.theirs):
        return "as the profiles' hit rates tell" if one.resource == "room in L2" else ""
    what = "with a kernel on the GPU" if one.resource == TURNS else "of it"
    return f"{100 * one.own:.0f} % {what} alone, the other {100 * one.theirs:.0f} %"


def oversubscribed(jobs: Sequence[str], parts: Sequence[Cause]) -> str:
    """Say which resources the jobs ask for more than there is of, taken as they use them alone; else that none is.

    Parameters
    ----------
    jobs : sequence of str
        The set.
    parts : sequence of Cause
        Those of one member.
    """
    said = []
    named = {label for side in causes([(one.resource, one.part) for one in parts]) for label, _ in side}
    for resource in RESOURCES:
        here = [one for one in parts if one.resource == resource and not np.isnan(one.theirs)]
        if not here or resource not in named:
            continue
        uses = [("itself", here[0].own), *((jobs[one.by], one.theirs) for one in here if one.by is not None)]
        total = sum(use for _, use in uses)
        if total > 1:
            listed = ", ".join(f"{name} {100 * use:.0f} %" for name, use in uses)
            said.append(f"{resource}, {100 * total:.0f} % ({listed})")
    if said:
        return f"SetQuery for beyond what there is: {'; '.join(said)}."
    if any(resource in named for resource in RESOURCES):
        return "On average no resource is asked for beyond what there is: they pay for wanting it at the same time."
    return ""
