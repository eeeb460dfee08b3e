"""Tally's two files: sharing systems with an inference server beside a training job on an A100, and jobs alone."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared.corun_frames import DID_NOT_RUN, RAN, run_outcome, workload_frame
from analysis.ingest.text.delimited import Sheet, header_of, read_sheet
from analysis.reference.mechanism_names import MPS, MPS_PRIORITY, TALLY, TGS, TIME_SLICING
from analysis.store.parsed import FRAME_COLUMNS, Parsed

GPU = "A100"

#: Part of a column's name -> mechanism.
SYSTEMS: Mapping[str, str] = {
    "tally": TALLY,
    "mps": MPS,
    "mps_priority": MPS_PRIORITY,
    "time_slicing": TIME_SLICING,
    "tgs": TGS,
}
#: Part of a column's name -> statistic of latency.
STATISTICS: Mapping[str, str] = {"avg": "mean", "90th": "p90", "95th": "p95", "99th": "p99"}

#: Columns that say how Tally was set; the other systems have no settings in the file.
SETTINGS = (
    "preemption_latency_limit", "min_wait_time", "use_original_configs", "use_space_share", "disable_transformation",
    "wait_time_to_use_original",
)  # fmt: skip

#: A server under load whose latency alone was taken from a run in which requests came one after the other.
SINGLE_STREAM = "solo_single_stream"


_ROLES = {"high_priority": ("high", 0), "best_effort": ("best effort", 1)}

#: Rule of the figures that repeat those of another row.
REPEATED = "repeated_figures"


class TallyCoruns:
    """Reads ``priority-aware-perf.csv``: throughputs are normalised to the job alone, latencies are milliseconds."""

    name = "tally-coruns"
    title = "Tally comparison of sharing systems (wide CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has both jobs and at least one system with both throughputs."""
        header = set(header_of(opened)[0])
        return {f"{role}_job" for role in _ROLES} <= header and bool(_systems(header))

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the runs; a system's figures that repeat those of an earlier row of the pair are one run.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        values = _numbers(sheet)
        for role in _ROLES:
            jobs = sheet.cells[f"{role}_job"]
            sheet.reject(jobs.index[jobs == ""], f"{role}_job", "is empty")
        wide, aside = _runs(sheet, values)
        member = _members(wide, sheet, values)
        latency = _latencies(wide, values)
        p99 = latency[latency["statistic"] == "p99"].set_index(["run", "slot"])
        keys = pd.MultiIndex.from_frame(member[["run", "slot"]])
        member["p99_solo_ms"] = p99["solo_ms"].reindex(keys).to_numpy()
        member["p99_corun_ms"] = p99["corun_ms"].reindex(keys).to_numpy()
        single = _single_stream(member, latency, hints, gpu)
        member["flags"] = [[SINGLE_STREAM] if job in single else [] for job in member["workload"]]
        outcome = member.groupby("run")["outcome"].agg(lambda found: run_outcome(int((found == RAN).sum()), 2))
        run = wide.assign(gpu=gpu, k=2, outcome=wide["run"].map(outcome))
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={
                "workload": workload_frame(member["workload"]),
                "run": run[[column for column in FRAME_COLUMNS["run"] if column in run.columns]],
                "member": member,
                "member_latency": latency[latency["statistic"] != "p99"].reset_index(drop=True),
                **aside.frames(opened),
            },
            report={
                "encoding": opened.encoding,
                "separator": sheet.delimiter,
                "gpu": gpu,
                "mechanisms": sorted(set(wide["mechanism"])),
                "repeated_figures": aside.counts[REPEATED],
                "flagged": {SINGLE_STREAM: sorted(single)} if single else {},
            },
            warnings=tuple(
                f"the latency of {job} alone is that of its single-stream run, not of the server under load"
                for job in sorted(single)
            ),
        )


def _systems(header: set[str]) -> list[str]:
    return [system for system in SYSTEMS if {f"{role}_{system}_throughput" for role in _ROLES} <= header]


def _latency_column(system: str, part: str) -> str:
    return f"high_priority_{system}_{part}_latency"


def _numbers(sheet: Sheet) -> dict[str, pd.Series[float]]:
    """Read every figure of the table; throughputs must be there, latencies may be missing."""
    header = set(sheet.header)
    found: dict[str, pd.Series[float]] = {}
    for system in (*_systems(header), "orig"):
        for role in _ROLES:
            column = f"{role}_{system}_throughput"
            if column in header:
                found[column] = sheet.numbers(column, least=0.0)
        for part in STATISTICS:
            column = _latency_column(system, part)
            if column in header:
                found[column] = sheet.numbers(column, above=0.0, required=False)
    return found


def _runs(sheet: Sheet, values: dict[str, pd.Series[float]]) -> tuple[pd.DataFrame, Aside]:
    """Return one row a run, and the sets of figures that repeat those of an earlier row."""
    seen: set[tuple[object, ...]] = set()
    rows: list[tuple[object, ...]] = []
    aside = Aside()
    settings = [column for column in SETTINGS if column in sheet.header]
    for line, row in zip(sheet.good().index, sheet.good().to_dict("records"), strict=True):
        pair = (row["high_priority_job"], row["best_effort_job"])
        setting = ", ".join(f"{name} {str(row[name]).lower()}" for name in settings)
        for system in _systems(set(sheet.header)):
            columns = [f"{role}_{system}_throughput" for role in _ROLES]
            columns += [_latency_column(system, part) for part in STATISTICS]
            given = [column for column in columns if column in values]
            figures = tuple(str(values[column][line]) for column in given)
            key = (*pair, system, setting if system == "tally" else "", figures)
            if key in seen:
                shown = ", ".join(f"{name} {figure}" for name, figure in zip(given, figures, strict=True))
                aside.add(REPEATED, [line], [f"{pair[0]} + {pair[1]}, {system}: {shown}"])
                continue
            seen.add(key)
            note = setting if system == "tally" else None
            rows.append((len(rows), f"{pair[0]} + {pair[1]}", SYSTEMS[system], system, line, note))
    names = ["run", "external_id", "mechanism", "system", "line", "note"]
    return pd.DataFrame(rows, columns=names), aside


def _members(wide: pd.DataFrame, sheet: Sheet, values: dict[str, pd.Series[float]]) -> pd.DataFrame:
    sides = []
    for role, (priority, slot) in _ROLES.items():
        shared = pd.Series(
            [
                values[f"{role}_{system}_throughput"][line]
                for system, line in zip(wide["system"], wide["line"], strict=True)
            ],
            index=wide.index,
            dtype=float,
        )
        ran = shared > 0
        sides.append(
            pd.DataFrame(
                {
                    "run": wide["run"], "slot": slot,
                    "workload": sheet.cells[f"{role}_job"].reindex(wide["line"]).to_numpy(),
                    "outcome": ran.map({True: RAN, False: DID_NOT_RUN}), "measure": "normalised", "unit": "normalised",
                    "solo_value": 1.0, "corun_value": shared.where(ran), "slowdown": 1.0 / shared.where(ran),
                    "priority": priority,
                }
            )
        )  # fmt: skip
    return pd.concat(sides).sort_values(["run", "slot"]).reset_index(drop=True)


def _latencies(wide: pd.DataFrame, values: dict[str, pd.Series[float]]) -> pd.DataFrame:
    """Latencies belong to the server, which has slot 0."""
    rows = []
    for run, system, line in zip(wide["run"], wide["system"], wide["line"], strict=True):
        for part, statistic in STATISTICS.items():
            solo = values.get(_latency_column("orig", part))
            shared = values.get(_latency_column(system, part))
            figures = tuple(float("nan") if found is None else float(found[line]) for found in (solo, shared))
            if any(figure == figure for figure in figures):
                rows.append((run, 0, statistic, *figures))
    return pd.DataFrame(rows, columns=["run", "slot", "statistic", "solo_ms", "corun_ms"])


def _single_stream(member: pd.DataFrame, latency: pd.DataFrame, hints: Hints, gpu: str) -> set[str]:
    """Name the servers whose latency alone is exactly that of the same model's single-stream run, and not their own."""
    if hints.solos is None:
        return set()
    known = hints.solos()
    known = known[(known["measure"] == "latency") & (known["gpu"] == gpu)]
    alone = {str(name): float(value) for name, value in zip(known["workload"], known["value"], strict=True)}
    servers = member.loc[member["slot"] == 0, ["run", "workload"]]
    means = latency[latency["statistic"] == "mean"].merge(servers, on="run")
    found = set()
    for server, value in zip(means["workload"].astype(str), means["solo_ms"], strict=True):
        model = server.split("_infer_")[0]
        others = [ms for name, ms in alone.items() if name.startswith(f"{model}_infer_single-stream")]
        if value in others and alone.get(server, value) != value:
            found.add(server)
    return found


#: Name in the file -> (feature, unit). The last one is the job's speed under Tally with nobody beside it.
_FEATURES = {
    "gpu_util": ("gpu_util", "%"),
    "mem_util": ("mem_util", "%"),
    "tally_naive_throughput": ("tally_naive_throughput", "normalised"),
}


class TallySolo:
    """Reads ``single-job-perf.csv``; throughputs are normalised to the job alone, so that its own is 1."""

    name = "tally-solo"
    title = "Tally jobs alone (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has the job, its kind, and its original throughput."""
        return {"exp_key", "workload_type", "original_throughput", "mem"} <= set(header_of(opened)[0])

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the solo values and features.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        job = sheet.cells["exp_key"]
        sheet.reject(job.index[job == ""], "exp_key", "is empty")
        sheet.reject(job.index[job.duplicated() & (job != "")], "exp_key", "names a job a second time")
        throughput = sheet.numbers("original_throughput", above=0.0)
        memory = sheet.numbers("mem", above=0.0, required=False)
        latency = pd.Series(float("nan"), index=job.index)
        if "original_avg_latency" in sheet.header:
            latency = sheet.numbers("original_avg_latency", above=0.0, required=False)
        features = [
            pd.DataFrame({"workload": job, "name": name, "value": sheet.numbers(column, required=False), "unit": unit})
            for column, (name, unit) in _FEATURES.items()
            if column in sheet.header
        ]
        good = sheet.good().index
        solo = pd.concat(
            pd.DataFrame({"workload": job, "measure": measure, "unit": unit, "value": value, "peak_memory_mib": memory})
            for measure, unit, value in (("normalised", "normalised", throughput), ("latency", "ms", latency))
        ).assign(gpu=gpu)
        solo["memory_kind"] = solo["peak_memory_mib"].notna().map({True: "nvidia-smi", False: None})
        solo = solo[solo.index.isin(good) & solo["value"].notna()]
        feature = pd.concat(features).assign(gpu=gpu) if features else pd.DataFrame(columns=["workload"])
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={
                "workload": workload_frame(job.loc[good]),
                "solo": solo.reset_index(drop=True),
                "feature": feature[feature.index.isin(good)].dropna().reset_index(drop=True),
            },
            report={"encoding": opened.encoding, "separator": sheet.delimiter, "gpu": gpu},
        )
