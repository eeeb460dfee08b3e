"""Lucid's co-located pairs: two training processes that time-slice an RTX 3090."""

from __future__ import annotations

import pandas as pd

from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.contract.mechanisms import TIME_SLICING
from analysis.ingest.formats.published.lucid_columns import GPU, HARD_CODED, HARD_CODED_MODELS, job_names
from analysis.ingest.formats.shared.corun_frames import DID_NOT_RUN, RAN, run_frame, workload_frame
from analysis.ingest.text.delimited import header_of, read_sheet
from analysis.store.parsed import Parsed

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
        return set(header_of(opened)[0]) >= _NEEDED

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
