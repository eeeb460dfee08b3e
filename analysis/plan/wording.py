"""A plan in words and as tables, the same on the page and the command line."""

from __future__ import annotations

import math

import pandas as pd

from analysis.numbers import significant
from analysis.plan.compare import RULES
from analysis.plan.planner import Answer
from analysis.plan.solve import Plan
from analysis.reference import origin


def answer(found: Answer) -> str:
    """Say in a sentence or two where the jobs go and what that costs."""
    plan = found.plan
    shared = sum(len(one.members) > 1 for one in plan.placements)
    placed, total = len(plan.members), len(plan.problem.jobs)
    text = f"{placed} of {_count(total, 'job')} go on {_count(plan.gpus_used, 'GPU')}, {shared} of them shared"
    if plan.waiting:
        text += f"; {len(plan.waiting)} {'waits' if len(plan.waiting) == 1 else 'wait'}"
    text += "."
    if plan.members:
        kept = sum(one.within for one in plan.members)
        text += (
            f" Worst slowdown {significant(plan.worst)} x, mean {significant(plan.antt)} x; {kept} of {placed} stay "
            f"within their limit ({significant(plan.problem.limit)} x where a job has none of its own)."
        )
    if plan.gap is not None and plan.gap > 0.01:
        text += f" It is at most {significant(plan.gap)} % from the best plan."
    elif plan.gap is None and plan.members:
        text += " How far it is from the best plan is not known."
    return text


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def board(plan: Plan) -> pd.DataFrame:
    """Return one row a placed job: gpu, job, workload, owner, slowdown, low, high, limit, verdict, and on."""
    rows = [
        {
            "gpu": place.name, "job": one.job.name, "workload": one.job.workload, "owner": one.job.owner,
            "slowdown": one.slowdown, "low": one.low if one.low != one.high else None,
            "high": one.high if one.low != one.high else None, "limit": one.limit, "verdict": place.verdict,
            "within_limit": place.probability,
            "evidence": origin.evidence(place.evidence, simulated=place.simulated) if place.evidence else "",
            "memory_mib": one.job.memory_mib, "stp": place.stp,
        }
        for place in plan.placements for one in place.members
    ]  # fmt: skip
    columns = ["gpu", "job", "workload", "owner", "slowdown", "low", "high", "limit", "verdict", "within_limit",
               "evidence", "memory_mib", "stp"]  # fmt: skip
    table = pd.DataFrame(rows, columns=columns)
    numbers = ["slowdown", "low", "high", "limit", "within_limit", "memory_mib", "stp"]
    return table.astype(dict.fromkeys(numbers, float))


def compared(found: Answer) -> pd.DataFrame:
    """Return the plan beside other ways of placing: way (in words) and the fields of `compare.Outcome`."""
    table = pd.DataFrame([one.to_json() for one in found.compared])
    table.insert(0, "way", table["rule"].map(RULES))
    numbers = [name for name in table.columns if name not in ("way", "rule")]
    return table.astype(dict.fromkeys(numbers, float))


def gain(found: Answer) -> str:
    """Say what the plan gains over random partners, and what is missing to the best."""
    by_rule = {one.rule: one for one in found.compared}
    plan, random, best = by_rule["plan"], by_rule["random"], by_rule.get("oracle")
    if not all(math.isfinite(value) for value in (plan.antt, random.antt)):
        return "There is nothing to compare it with: no other way of placing has figures."
    text = f"Mean slowdown {significant(plan.antt)} x, with random partners {significant(random.antt)} x"
    if random.antt_low is not None and random.antt_high is not None:
        text += f" ({significant(random.antt_low)} to {significant(random.antt_high)})"
    text += f"; jobs beyond their limit {significant(plan.violations)} % against {significant(random.violations)} %"
    if best is not None and plan.regret_stp is not None:
        more = significant(max(plan.regret_stp, 0.0))
        text += f". The best plan by what was measured, limits aside, does {more} % more work"
    return text + "."
