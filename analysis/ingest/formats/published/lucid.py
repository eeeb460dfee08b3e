"""Lucid's two files: co-located pairs that time-slice an RTX 3090, and the jobs alone."""

from __future__ import annotations

import pandas as pd

from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared.corun_frames import DID_NOT_RUN, RAN, run_frame, workload_frame
from analysis.ingest.text.delimited import Sheet, header_of, read_sheet
from analysis.reference.mechanism_names import TIME_SLICING
from analysis.store.parsed import Parsed

GPU = "RTX 3090"

#: Jobs that keep the CPU busy: the authors wrote a speed of 1 for all of them instead of measuring it.
HARD_CODED_MODELS = frozenset({"PPO", "TD3"})
HARD_CODED = "hard_coded"


def job_names(sheet: Sheet, suffix: str, batch: str, data: str) -> pd.Series[str]:
    """Return ``model/dataset/batch size/amp`` for every row, and reject rows that lack one of the four.

    Parameters
    ----------
    sheet : Sheet
        The file.
    suffix : str
        ``1`` or ``2`` for the members of a pair, empty for jobs alone.
    batch, data : str
        The file's names of those columns, without the suffix.

    Returns
    -------
    pd.Series
        Names by line.
    """
    parts = [f"{name}{suffix}" for name in ("model", data, batch, "amp")]
    for column in parts:
        sheet.reject(sheet.cells.index[sheet.cells[column] == ""], column, "is empty")
    batches, amp = sheet.cells[parts[2]], sheet.cells[parts[3]]
    sheet.reject(batches.index[~batches.str.fullmatch(r"[1-9]\d{0,6}|")], parts[2], "isn't a batch size")
    sheet.reject(amp.index[~amp.isin(["0", "1", ""])], parts[3], "isn't 0 or 1")
    return sheet.cells[parts].agg("/".join, axis=1)


_SIDES = ("1", "2")
_NEEDED = frozenset(f"{name}{side}" for side in _SIDES for name in ("model", "dataset", "batchsize", "amp", "speed"))

#: Measured while both ran: they describe the answer, and are no input of a prediction.
_DURING = {"gpu_util": "%", "gmem_util": "%", "gmem": "MiB"}


class LucidPairs:
    """Reads ``colocate_info.csv``: speeds are normalised to the job alone, slowdown = 1 / speed."""

    name = "lucid-pairs"
    title = "Lucid co-located pairs (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has model, dataset, batch size, amp and speed of two jobs."""
        # Any other column, such as a third model, makes it another table.
        return _NEEDED <= set(header_of(opened)[0]) <= _NEEDED | {"", "Unnamed: 0", "gpu_num1", "gpu_num2", *_DURING}

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the pairs; what was measured during the co-run goes into the run's note.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        sides = [
            pd.DataFrame(
                {
                    "slot": int(side) - 1,
                    "workload": job_names(sheet, side, "batchsize", "dataset"),
                    "model": sheet.cells[f"model{side}"],
                    "corun_value": sheet.numbers(f"speed{side}", least=0.0),
                }
            )
            for side in _SIDES
        ]
        for side in _SIDES:
            if f"gpu_num{side}" in sheet.header:
                several = sheet.cells[f"gpu_num{side}"] != "1"
                sheet.reject(several.index[several], f"gpu_num{side}", "isn't 1: the pair doesn't share one GPU")
        during = [name for name in _DURING if name in sheet.header]
        good = sheet.good()
        member = pd.concat(sides).loc[lambda rows: rows.index.isin(good.index)].sort_index(kind="stable")
        invented = member["model"].isin(HARD_CODED_MODELS) & (member["corun_value"] == 1.0)
        ran = member["corun_value"] > 0
        member = member.assign(
            outcome=ran.map({True: RAN, False: DID_NOT_RUN}),
            measure="normalised",
            unit="normalised",
            solo_value=1.0,
            corun_value=member["corun_value"].where(ran),
            slowdown=(1.0 / member["corun_value"].where(ran)).mask(invented),
            flags=invented.map(lambda found: [HARD_CODED] if found else []),
        )
        run, member = run_frame(member, gpu=gpu, mechanism=TIME_SLICING, note=_notes(good, during))
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={"workload": workload_frame(member["workload"]), "run": run, "member": member},
            report={
                "encoding": opened.encoding,
                "separator": sheet.delimiter,
                "gpu": gpu,
                "mechanism": TIME_SLICING,
                "measured_during_corun": during,
                "flagged": {HARD_CODED: int(invented.sum())} if invented.any() else {},
            },
            warnings=(
                f"{int(invented.sum())} speeds of PPO and TD3 are written as 1 and were not measured: "
                "these jobs have no slowdown, and count as co-runners",
            )
            if invented.any()
            else (),
        )


def _notes(good: pd.DataFrame, during: list[str]) -> pd.Series[str] | None:
    if not during or good.empty:
        return None
    parts = pd.DataFrame({name: f"{name} " + good[name] + f" {_DURING[name]}" for name in during})
    return "measured during the co-run: " + parts.agg(", ".join, axis=1)


UNIT = "samples/s"

#: Name in the file -> unit. ``label`` is the authors' class of how well the job shares: 0 best, 2 worst.
_FEATURES = {"gpu_util": "%", "gmem_util": "%", "gmem": "MiB", "label": "class"}


class LucidSolo:
    """Reads ``single_data.csv``: the only inputs that Lucid's pairs have."""

    name = "lucid-solo"
    title = "Lucid jobs alone (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has model, dataset, batch size, amp, speed and both utilisations of one job."""
        return {"model", "dataset", "batchsize", "amp", "speed", "gpu_util", "gmem_util"} <= set(header_of(opened)[0])

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the solo values and features.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        workload = job_names(sheet, "", "batchsize", "dataset")
        value = sheet.numbers("speed", above=0.0)
        features = {name: sheet.numbers(name, least=0.0, required=False) for name in _FEATURES if name in sheet.header}
        again = workload.duplicated()
        sheet.reject(workload.index[again], None, "is a configuration that stands in the file already")
        good = sheet.good().index
        memory = features.get("gmem", pd.Series(float("nan"), index=workload.index))
        solo = pd.DataFrame(
            {
                "workload": workload, "gpu": gpu, "measure": "throughput", "unit": UNIT, "value": value,
                "peak_memory_mib": memory, "memory_kind": memory.notna().map({True: "nvidia-smi", False: None}),
            }
        ).loc[good]  # fmt: skip
        feature = pd.concat(
            pd.DataFrame({"workload": workload, "gpu": gpu, "name": name, "value": numbers, "unit": _FEATURES[name]})
            for name, numbers in features.items()
        )
        feature = feature[feature.index.isin(good)].dropna(subset=["value"]).sort_index(kind="stable")
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={
                "workload": workload_frame(workload.loc[good]),
                "solo": solo.reset_index(drop=True),
                "feature": feature.reset_index(drop=True),
            },
            report={"encoding": opened.encoding, "separator": sheet.delimiter, "gpu": gpu},
        )
