"""KACE's three files: pairs and triples under CUDA MPS on a V100 with 32 GB, and kernel lengths of jobs alone."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared.corun_frames import (
    DID_NOT_RUN,
    RAN,
    contradictions,
    one_each,
    run_frame,
    run_outcome,
    workload_frame,
)
from analysis.ingest.text.delimited import Sheet, header_of, read_sheet
from analysis.reference.mechanism_names import MPS
from analysis.store.parsed import FRAME_COLUMNS, Parsed

GPU = "V100-32GB"
THROUGHPUT_UNIT = "samples/s"

#: Means over a workload's kernels, weighted by duration, as Nsight Compute counted them.
COUNTERS: Mapping[str, str] = {
    "Threads": "threads",
    "Compute (SM) Throughput": "%",
    "DRAM Throughput": "%",
    "Memory Throughput": "%",
    "Registers": "registers",
    "Static Shared Memory": "byte",
}
#: What nvidia-smi showed while the workload ran alone; ``memcap`` is its largest memory use.
UTILISATION: Mapping[str, str] = {"sm%": "%", "mem%": "%", "memcap": "GB"}
#: Only in the file of kernel lengths. The ratio is the number of long kernels for each short one.
LENGTHS: Mapping[str, str] = {
    "PCIe read bandwidth": "",
    "PCIe write bandwidth": "",
    "Short_Kernel": "us",
    "avg_Thread": "threads",
    "Long_Kernel": "us",
    "ave_Kernel_Length": "us",
    "long/short_Ratio": "",
}
#: The memory limits of CUDA MPS and the driver's figures count in powers of two, whatever their label.
MIB_PER_GB = 1024.0


def read_features(
    sheet: Sheet, workload: pd.Series[str], columns: Mapping[str, str], units: Mapping[str, str]
) -> pd.DataFrame:
    """Return the features of the named columns in long form.

    Parameters
    ----------
    sheet : Sheet
        The file; cells that are no numbers are rejected there, empty ones have no value.
    workload : pd.Series
        Whose features they are, by line.
    columns : mapping of str to str
        The file's column -> the feature's name; columns that the file lacks are left out.
    units : mapping of str to str
        Unit of each feature.

    Returns
    -------
    pd.DataFrame
        Indexed by line: workload, name, value, unit.
    """
    blocks = [
        pd.DataFrame(
            {"workload": workload, "name": name, "value": sheet.numbers(column, required=False), "unit": units[name]}
        )
        for column, name in columns.items()
        if column in sheet.header
    ]
    if not blocks:
        return pd.DataFrame(columns=["workload", "name", "value", "unit"])
    return pd.concat(blocks)


_SIDES = (1, 2)
_NEEDED = frozenset(name for i in _SIDES for name in (f"workload{i}", f"w{i}throughput", f"w{i}exclusive_throughput"))

_COLUMNS = _NEEDED | {
    name
    for i in _SIDES
    for name in (f"idx{i}", *(f"w{i}_{counter}" for counter in COUNTERS), *(f"w{i}{use}" for use in UTILISATION))
}


class KacePairs:
    """Reads ``kace_pairs.csv``: slowdown = exclusive / shared throughput."""

    name = "kace-pairs"
    title = "KACE co-run pairs with solo counters (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has both workloads with their shared and exclusive throughput."""
        names = header_of(opened)[0]
        # Any other column, such as a third workload, makes it another table: its rows are no pairs.
        return _NEEDED <= set(names) <= _COLUMNS

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the pairs, the solo values and the solo counters.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        sides, features = [], []
        for i in _SIDES:
            workload = sheet.cells[f"workload{i}"]
            sheet.reject(sheet.cells.index[workload == ""], f"workload{i}", "is empty")
            sides.append(
                pd.DataFrame(
                    {
                        "slot": i - 1,
                        "workload": workload,
                        "solo_value": sheet.numbers(f"w{i}exclusive_throughput", above=0.0),
                        "corun_value": sheet.numbers(f"w{i}throughput", least=0.0),
                    }
                )
            )
            counters = {f"w{i}_{name}": name for name in COUNTERS} | {f"w{i}{name}": name for name in UTILISATION}
            features.append(read_features(sheet, workload, counters, {**COUNTERS, **UTILISATION}))
        good = sheet.good().index
        member = pd.concat(sides).loc[lambda rows: rows.index.isin(good)].sort_index(kind="stable")
        feature = pd.concat(features).loc[lambda rows: rows.index.isin(good)]
        # A throughput of zero says that the job did not run: it has no slowdown.
        ran = member["corun_value"] > 0
        member = member.assign(
            outcome=ran.map({True: RAN, False: DID_NOT_RUN}),
            measure="throughput",
            unit=THROUGHPUT_UNIT,
            corun_value=member["corun_value"].where(ran),
            slowdown=member["solo_value"] / member["corun_value"].where(ran),
            thread_percentage=100.0,
        )
        run, member = run_frame(member, gpu=gpu, mechanism=MPS)
        values = member.rename(columns={"solo_value": "value"})
        memory = feature[feature["name"] == "memcap"]
        solo = one_each(values, ["workload", "measure", "unit"], "value").assign(gpu=gpu)
        peak = one_each(memory, ["workload"], "value").set_index("workload")["value"] * MIB_PER_GB
        solo["peak_memory_mib"] = solo["workload"].map(peak)
        solo["memory_kind"] = solo["peak_memory_mib"].notna().map({True: "nvidia-smi", False: None})
        warnings = tuple(
            f"{name} has more than one {what} in this file; the median is used"
            for what, frame, keys in (
                ("exclusive throughput", values, ["workload"]),
                ("value of a counter", feature, ["workload", "name"]),
            )
            for name in contradictions(frame, keys, "value")
        )
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={
                "workload": workload_frame(member["workload"]),
                "run": run,
                "member": member,
                "solo": solo,
                "feature": one_each(feature, ["workload", "name", "unit"], "value").assign(gpu=gpu),
            },
            report={"encoding": opened.encoding, "separator": sheet.delimiter, "gpu": gpu, "mechanism": MPS},
            warnings=warnings,
        )


class KaceKernelLengths:
    """Reads ``kace_kernel_lengths.csv``, one row a workload; the counters in it are those of the pairs."""

    name = "kace-kernel-lengths"
    title = "KACE kernel lengths of solo workloads (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has the workload as ``Type`` and the mean length of its kernels."""
        return {"Type", "ave_Kernel_Length", "long/short_Ratio"} <= set(header_of(opened)[0])

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the features of each workload.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        workload = sheet.cells["Type"]
        sheet.reject(workload.index[workload == ""], "Type", "is empty")
        sheet.reject(workload.index[workload.duplicated() & (workload != "")], "Type", "names a workload a second time")
        units = {**COUNTERS, **LENGTHS}
        feature = read_features(sheet, workload, {name: name for name in units}, units)
        good = sheet.good()
        feature = feature[feature.index.isin(good.index)].dropna(subset=["value"]).assign(gpu=gpu)
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={"workload": workload_frame(good["Type"]), "feature": feature.reset_index(drop=True)},
            report={"encoding": opened.encoding, "separator": sheet.delimiter, "gpu": gpu},
        )


_JOBS = ("workload1", "workload2", "workload3")
_SHARES = re.compile(r"\(\s*w1_(\d{1,3}),\s*w2_(\d{1,3}),\s*w3_(\d{1,3})\s*\)")
_CELL = re.compile(r"\(([^,()]*),([^,()]*),([^,()]*)\)")
_NUMBER = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?")


class KaceTriples:
    """Reads ``kace_triples_raw.csv``: slowdown = solo throughput of the pairs / shared throughput."""

    name = "kace-triples"
    title = "KACE co-run triples (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has three workloads and thread percentages of three jobs."""
        header = header_of(opened)[0]
        return (
            set(_JOBS) <= set(header) and "workload4" not in header and any(_SHARES.fullmatch(name) for name in header)
        )

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the triples; the pairs must be loaded before them, for the solo values.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        for column in _JOBS:
            sheet.reject(sheet.cells.index[sheet.cells[column] == ""], column, "is empty")
        member, empty = _members(sheet)
        member["solo_value"] = member["workload"].map(_solos(hints, gpu))
        member["slowdown"] = member["solo_value"] / member["corun_value"]
        run = _runs(member, gpu)
        unknown = sorted(set(member.loc[member["solo_value"].isna(), "workload"]))
        warnings: tuple[str, ...] = ()
        if unknown:
            named = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
            warnings = (
                f"no solo throughput is loaded for {named}: their members have no slowdown. "
                "Remove this source, load kace_pairs.csv into the same data set, then load this file again",
            )
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={
                "workload": workload_frame(member["workload"]),
                "run": run,
                "member": member[[column for column in FRAME_COLUMNS["member"] if column in member.columns]],
            },
            report={
                "encoding": opened.encoding,
                "separator": sheet.delimiter,
                "gpu": gpu,
                "mechanism": MPS,
                "percentage_cells_not_measured": empty,
                "outcomes": {str(name): int(count) for name, count in run["outcome"].value_counts().items()},
            },
            warnings=warnings,
        )


def _solos(hints: Hints, gpu: str) -> Mapping[str, float]:
    if hints.solos is None:
        return {}
    known = hints.solos()
    here = known[(known["gpu"] == gpu) & (known["measure"] == "throughput")].dropna(subset=["value"])
    return {str(name): float(value) for name, value in here.groupby("workload")["value"].median().items()}


def _members(sheet: Sheet) -> tuple[pd.DataFrame, int]:
    """Return one row a member, runs numbered in the order of lines and columns, and the cells that hold nothing."""
    shares = {name: match.groups() for name in sheet.header if (match := _SHARES.fullmatch(name))}
    measured = []
    empty = 0
    for line, row in zip(sheet.cells.index, sheet.cells.to_dict("records"), strict=True):
        for column, percentages in shares.items():
            free = set(percentages) == {"100"}
            values = _cell(str(row[column]))
            if values is None:
                sheet.reject([line], column, "isn't three throughputs in brackets")
            elif free or any(value is not None for value in values):
                measured.append((line, column, values, percentages, [str(row[job]) for job in _JOBS]))
            else:
                empty += 1
    bad = {line for line, _, _ in sheet.rejects}
    rows = []
    for number, (line, column, values, percentages, jobs) in enumerate(item for item in measured if item[0] not in bad):
        for slot, (job, value, percentage) in enumerate(zip(jobs, values, percentages, strict=True)):
            rows.append(
                (number, slot, job, DID_NOT_RUN if value is None else RAN, value, float(percentage), line, column)
            )
    columns = ["run", "slot", "workload", "outcome", "corun_value", "thread_percentage", "line", "column"]
    member = pd.DataFrame(rows, columns=columns).astype({"corun_value": float})
    return member.assign(measure="throughput", unit=THROUGHPUT_UNIT), empty


def _runs(member: pd.DataFrame, gpu: str) -> pd.DataFrame:
    first = member.drop_duplicates("run")
    ran = member["outcome"].eq(RAN).groupby(member["run"]).sum()
    return pd.DataFrame(
        {
            "run": first["run"],
            "external_id": "line " + first["line"].astype(str) + " " + first["column"],
            "gpu": gpu,
            "mechanism": MPS,
            "k": len(_JOBS),
            "outcome": [run_outcome(int(some), len(_JOBS)) for some in ran],
            "line": first["line"],
        }
    ).reset_index(drop=True)


def _cell(text: str) -> tuple[float | None, ...] | None:
    """Read three throughputs; None and 0 say that the job did not run."""
    match = _CELL.fullmatch(text)
    if match is None:
        return None
    values: list[float | None] = []
    for part in (piece.strip() for piece in match.groups()):
        if part == "None":
            values.append(None)
        elif _NUMBER.fullmatch(part) and float(part) < float("inf"):
            values.append(float(part) or None)
        else:
            return None
    return tuple(values)
