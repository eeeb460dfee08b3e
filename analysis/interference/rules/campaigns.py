"""Measurements of different campaigns that must not be mixed, and measurements that stand twice."""

from __future__ import annotations

from analysis.interference.finding import Finding, counted, named, place
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, repeats
from analysis.store.queries.sources import sources

#: Solo values further apart than this are not the same measurement repeated.
SOLO_TOLERANCE = 0.02


def pooled_campaigns(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report data sets whose sources state different solo values for the same workload and GPU."""
    solos = coruns.solos(database, Filter(datasets=(dataset,) if dataset else ()))
    solos = solos[solos["value"] > 0]
    key = ["dataset", "gpu", "workload", "measure", "unit"]
    by_source = solos.groupby([*key, "source_id"], dropna=False)["value"].median().reset_index()
    spread = by_source.groupby(key, dropna=False)["value"].agg(["min", "max", "size"]).reset_index()
    apart = spread[(spread["size"] > 1) & (spread["max"] > spread["min"] * (1 + SOLO_TOLERANCE))]
    findings = []
    for (name, gpu), group in apart.groupby(["dataset", "gpu"], sort=True):
        worst = 100 * float((group["max"] / group["min"] - 1).max())
        sentence = (
            f"Two campaigns with different solo baselines are pooled: for {counted(len(group), 'workload')} the "
            f"sources' solo values differ by up to {worst:.0f} % ({named(group['workload'])}). Import them as data "
            "sets of their own."
        )
        rows = group.rename(columns={"min": "lowest", "max": "highest", "size": "sources"}).reset_index(drop=True)
        findings.append(Finding("pooled-campaigns", "error", place(name, gpu), len(rows), sentence, rows))
    return findings


def identical_datasets(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report data sets whose co-runs are another's, number for number: one campaign under two names."""
    found = coruns.twins(database)
    if dataset is not None:
        found = found[(found["dataset"] == dataset) | (found["other"] == dataset)]
    findings = []
    for row in found.to_dict("records"):
        own, other = (row["dataset"], row["other"])
        if own != dataset and dataset is not None:
            own, other = other, own
        sentence = (
            f"All {counted(int(row['runs']), 'co-run')} have the same numbers as those of data set {other}: it is one "
            "campaign under two names, and neither confirms the other."
        )
        table = found[(found["dataset"] == row["dataset"]) & (found["other"] == row["other"])].reset_index(drop=True)
        findings.append(Finding("identical-data-sets", "warning", str(own), int(row["runs"]), sentence, table))
    return findings


def remeasured_baselines(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report co-run values that stand in two data sets, or two files, while the solo values differ."""
    found = repeats.same_values_other_solo(database, SOLO_TOLERANCE, dataset)
    findings = []
    for (first, second, gpu), rows in found.groupby(["dataset", "other_dataset", "gpu"], sort=True):
        between = f"{first} and {second}"
        if first == second:
            between = named(sorted({*rows["file_name"], *rows["other_file"]}))
        sentence = (
            f"{counted(len(rows), 'co-run value')} of {between} are identical while the solo values differ: "
            "one of them took over the co-runs and measured the baselines again, so its slowdowns mix two campaigns."
        )
        table = rows.reset_index(drop=True)
        where = place(first if first == second else between, gpu)
        findings.append(Finding("remeasured-baselines", "warning", where, len(table), sentence, table))
    return findings


def repeated_measurements(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report co-runs that stand several times with the same values to the last digit."""
    found = repeats.repeated_runs(database, dataset)
    findings = []
    for (name, gpu, mechanism), group in found.groupby(["dataset", "gpu", "mechanism"], sort=True):
        copies = int(group["copies"].sum() - len(group))
        sentence = (
            f"{counted(len(group), 'set')} stand{'s' if len(group) == 1 else ''} {counted(copies, 'more time')} with "
            "the same values to the last digit: copies, not repeats, and no evidence of a small spread."
        )
        rows = group.reset_index(drop=True)
        findings.append(
            Finding("repeated-measurements", "warning", place(name, gpu, mechanism), len(rows), sentence, rows)
        )
    return findings


def repeated_exports(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report files whose launches or samples stand in another file: one measurement, exported again."""
    found = repeats.repeated_launches(database, dataset)
    findings = []
    for (name, gpu), group in found.groupby(["dataset", "gpu"], sort=True):
        rows = group.reset_index(drop=True)
        # A file may repeat several others; its launches are copies once.
        copies = int(rows.drop_duplicates(["workload", "source_id"])["launches"].sum())
        sentence = (
            f"{counted(copies, 'launch', 'launches')} of {named(rows['workload'].unique())} "
            f"stand{'s' if copies == 1 else ''} in two files with the same values: one measurement, "
            "exported twice, and counted twice in the number of launches."
        )
        findings.append(Finding("repeated-exports", "warning", place(name, gpu), len(rows), sentence, rows))
    for name, group in repeats.repeated_samples(database, dataset).groupby("dataset", sort=True):
        rows = group.reset_index(drop=True)
        part = " Leaving the later one out takes its other samples too." if (rows["samples"] < rows["of"]).any() else ""
        sentence = (
            f"{counted(int(rows['samples'].sum()), 'sample')} of {named(rows['file_name'].unique())} stand in another "
            "file with the same values at the same moments: recordings that were exported twice, or exports that "
            f"overlap, and counted twice.{part}"
        )
        findings.append(Finding("repeated-exports", "warning", place(name, "telemetry"), len(rows), sentence, rows))
    return findings


def mixed_origin(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report data sets that hold both simulated and measured sources."""
    table = sources(database, Filter(datasets=(dataset,) if dataset else ()))
    findings = []
    for name, group in table.groupby("dataset", sort=True):
        if group["simulated"].nunique() > 1:
            made = group[group["simulated"]]
            rows = made[["dataset", "file_name", "source_id"]].reset_index(drop=True)
            sentence = (
                f"{counted(len(made), 'source')} of {len(group)} are simulated and the others measured. They are never "
                "trained on together: import them as data sets of their own."
            )
            findings.append(Finding("mixed-origin", "error", place(name), len(rows), sentence, rows))
    return findings
