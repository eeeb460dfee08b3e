"""Small files in the forms that users bring: two Nsight Compute CSVs and a co-run table of 42 runs."""

from __future__ import annotations

import csv
import itertools
import random
from pathlib import Path

GPU = "A100-40GB"
MECHANISM = "CUDA MPS"

#: Jobs with how hard they lean on memory and arithmetic, which makes their slowdowns; the first two are profiled.
JOBS = {
    "resnet50_bs64_amp": (0.55, 0.70),
    "bert_bs8_amp": (0.80, 0.45),
    "gnn_bs1024_fp32": (0.90, 0.15),
    "vit_bs32_amp": (0.45, 0.80),
    "lstm_bs64_fp32": (0.30, 0.25),
    "dlrm_bs2048_fp32": (0.85, 0.10),
    "unet_bs8_amp": (0.60, 0.75),
    "gpt2_bs4_bf16": (0.75, 0.65),
}
PROFILED = tuple(JOBS)[:2]

_REASONS = {
    "long_scoreboard": 0.42, "wait": 0.10, "barrier": 0.07, "math_pipe_throttle": 0.06, "short_scoreboard": 0.05,
    "not_selected": 0.08, "selected": 0.09, "lg_throttle": 0.03, "mio_throttle": 0.02, "branch_resolving": 0.01,
    "dispatch_stall": 0.01, "drain": 0.01, "imc_miss": 0.005, "membar": 0.0, "misc": 0.005, "no_instruction": 0.01,
    "sleeping": 0.0, "tex_throttle": 0.0,
}  # fmt: skip
_HEADER = [
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value",
]  # fmt: skip
_KERNELS = (
    "ampere_sgemm_128x64_nn",
    "void at::native::vectorized_elementwise_kernel<4, float>(int, float)",
    "softmax_warp_forward",
)


def profile(path: Path, job: str) -> Path:
    """Write a profile of twelve launches as `ncu --csv --page raw` prints its long form, two lines of log before it."""
    memory, compute = JOBS[job]
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(
            "==PROF== Connected to process 4711 (/usr/bin/python3.11)\n==PROF== Disconnected from process 4711\n"
        )
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(_HEADER)
        for launch in range(12):
            kernel = _KERNELS[launch % len(_KERNELS)]
            total = 8.0 + 2 * memory + launch % len(_KERNELS)
            metrics = {
                "gpu__time_duration.sum": ("nsecond", 40_000 + 9_000 * (launch % 3)),
                "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", 100 * compute - launch),
                "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", 100 * memory - launch),
                "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("%", 90 * memory - launch),
                "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", 60 + launch),
                "smsp__inst_issued.sum": ("inst", 2_000_000 + 100_000 * launch),
                "smsp__issue_active.avg.pct_of_peak_sustained_active": ("%", 30 + 20 * compute),
                "smsp__average_warps_active_per_issue_active.ratio": ("warp", total),
            }
            weights = {
                name: share * (1 + memory if name == "long_scoreboard" else 1) for name, share in _REASONS.items()
            }
            for name, share in weights.items():
                value = 0.96 * total * share / sum(weights.values())
                metrics[f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio"] = ("inst", value)
            for name, (unit, value) in metrics.items():
                writer.writerow([
                    launch, 4711, "python3.11", "127.0.0.1", kernel, 1, 7, "(256, 1, 1)", f"({64 + launch}, 1, 1)", 0,
                    "8.0", "Command line profiler metrics", name, unit, f"{value:,.6f}",
                ])  # fmt: skip
    return path


def slowdown(own: tuple[float, float], other: tuple[float, float]) -> float:
    """What a job pays: nothing below full use, then the share that is missing, worse for those who need more."""
    return 1.03 + sum(max(0.0, a + b - 1) * a for a, b in zip(own, other, strict=True))


def coruns(path: Path, *, extra: int = 6) -> Path:
    """Write all 36 pairs of the eight jobs, self pairs too, and some repeats."""
    draw = random.Random(7)
    pairs = list(itertools.combinations_with_replacement(JOBS, 2))
    pairs += pairs[:extra]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([
            "run_id", "gpu", "mechanism", "slot", "workload", "solo_throughput", "corun_throughput", "unit",
            "peak_memory_mib", "memory_kind", "outcome",
        ])  # fmt: skip
        for number, pair in enumerate(pairs):
            for slot, job in enumerate(pair):
                solo = 100.0 + 40 * list(JOBS).index(job)
                cost = slowdown(JOBS[job], JOBS[pair[1 - slot]]) * draw.uniform(0.98, 1.02)
                writer.writerow([
                    f"run-{number}", GPU, MECHANISM, slot, job, solo, round(solo / cost, 3), "samples/s",
                    3000 + 900 * list(JOBS).index(job), "nvidia-smi", "ran",
                ])  # fmt: skip
    return path


def all_files(folder: Path) -> list[Path]:
    """Write the two profiles, named so that workload and GPU can be guessed, and the co-run table."""
    return [*(profile(folder / f"{job}_A100-40GB.csv", job) for job in PROFILED), coruns(folder / "coruns.csv")]
