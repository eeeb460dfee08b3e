"""What is said of two profiles whose stall reasons have no common scale, or that only rule texts name."""

from __future__ import annotations

import pandas as pd

from analysis.reference import stall_reasons
from analysis.reference.stall_families import BY_NAME
from analysis.stalls.sides import Side


def title(reason: str) -> str:
    """Return a reason's name for the middle of a sentence."""
    table = stall_reasons.load()
    text = str(table.at[reason, "title"]) if reason in table.index else reason.replace("_", " ")
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def apart(base: Side, other: Side, families: tuple[str | None, str | None], wanted: str) -> str:
    """Say that two families can't be compared, and which export makes them comparable.

    Parameters
    ----------
    base, other : Side
        What is compared.
    families : tuple of str
        Family of each.
    wanted : str
        The family that both are to be exported in.
    """
    first, second = (BY_NAME[str(name)].title for name in families)
    sides = zip((base, other), families, strict=True)
    lacking = " and ".join(side.name for side, family in sides if family != wanted)
    return (
        f"{base.name} and {other.name} can't be compared reason by reason: the one holds {first}, the other {second}, "
        f"and families of metrics have no common scale. Profile {lacking} again with `ncu --section WarpStateStats`, "
        f"which gives {BY_NAME[wanted].title}."
    )


def each(base: Side, other: Side, totals: pd.DataFrame) -> str:
    """Say each side's largest reason for itself; empty where neither has one."""
    parts = []
    for side, column in ((base, "share_base"), (other, "share_other")):
        rows = totals[totals[column].notna() & (totals["reason"] != "selected")]
        if len(rows):
            row = rows.iloc[int(rows[column].to_numpy().argmax())]
            parts.append(f"{side.name} {title(str(row['reason']))}, {row[column]:.1f} %")
    return f"Each for itself, the largest reasons are: {'; '.join(parts)}." if parts else ""


def by_rules(base: Side, other: Side, top: pd.DataFrame) -> str:
    """Say what rule texts alone name, of the longest such kernel of each side; empty where there is none."""
    said = []
    for side, which in ((base, "base"), (other, "other")):
        rows = top[top["side"] == which]
        if len(rows):
            row = rows.iloc[0]
            share = "" if pd.isna(row["share"]) else f" ({row['share']:.1f} % of its warp cycles)"
            said.append(
                f"By rule text only, {side.name} waits most for {title(str(row['reason']))}{share} in the kernel "
                f"{row['short_name']}; the other reasons are unknown."
            )
    return " ".join(said)
