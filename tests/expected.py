"""What the real exports must give, read from the table that lies beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

#: What must be said of a file, beside its numbers: words of its warnings, its error or its notes of separators.
SAID: dict[str, tuple[str, ...]] = {
    "xplacer-v100-ncu2019-spmv.txt": ("unaccounted", "max_rate", "lost letters"),
    "polyfhe-rtx4090-stall-set1.csv": ("unaccounted", "42.6 %", "43.2 %"),
    "clima-a100-details-base.csv": ("no stall reasons beside the top one that the rules name",),
    "llmperf-rtx5090-details-k1.csv": ("flop_count_sp.sum came as n/a",),
    "roofline-rtx5070-ncu-gemm-tiled.csv": ("program's own output: RTX 5070",),
    "turing-windows-ncu-na.csv": (
        "came as n/a in all 5 rows",
        "the valid name is smsp__warp_issue_stalled_math_pipe_throttle_per_warp_active.pct",
    ),
    "giotyp-a100-summary-metrics.csv": ("averages over the launches",),
    "polyfhe-text-not-csv.csv": ("text report of Nsight Compute", "ncu --import", "--csv"),
    "ncu-failed-ctrperm.txt": ("no permission", "NVreg_RestrictProfilingToAdminUsers=0"),
    "nvprof-summary-cfd.csv": ("Another table of the file is set aside",),
    "flame-a4500-nsys-gputrace-torch.csv": ("copies and fills of memory are set aside",),
    "t4-kineto-fp32.json": ("estimate",),
    "hami-rtx2000ada-sharing-smi.csv": ("column names are the user's own", "util_gpu_pct = utilization.gpu"),
    "dcgm-exporter-sample.prom": ("a number that stands for no value",),
}


@dataclass(frozen=True)
class Expected:
    """One file: rows read, launches, kernel names and stall reasons where the table states them."""

    name: str
    rows: int | None
    launches: int | None
    kernels: int | None
    reasons: int | None
    refused: bool = False


def expected(folder: Path) -> list[Expected]:
    """Read the table of a folder."""
    found = []
    for line in (folder / "EXPECT.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) < 5 or cells[0] in ("file", "---"):
            continue
        name, _, rows, launches, stalls, noticed = (*cells, "")[:6]
        more = re.search(r"\+ (\d+) in a second table", rows)
        number = re.match(r"(\d+)", rows)
        pair = re.match(r"(\d+) / (\d+)", launches)
        alone = re.match(r"(\d+) kernels?\b", launches)
        events = re.search(r"(\d+) kernel events", rows)
        kernels = pair[2] if pair else alone[1] if alone else None
        reasons = re.match(r"(\d+)", stalls)
        none = stalls == "no" or stalls.startswith(("only as rule", "misspelt"))
        found.append(
            Expected(
                name=name,
                rows=int(number[1]) + (int(more[1]) if more else 0) if number else None,
                launches=int(pair[1]) if pair else int(events[1]) if events else None,
                kernels=int(kernels) if kernels else None,
                reasons=int(reasons[1]) if reasons else 0 if none else None,
                refused=noticed.startswith("refused"),
            )
        )
    return found
