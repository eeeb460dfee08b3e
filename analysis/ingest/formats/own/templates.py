"""Templates of the own tables to download, and the tables of their columns for the guide."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.ingest.formats.own.columns import CORUN_COLUMNS, PROFILE_COLUMNS, Column
from analysis.reference.mechanism_names import MPS


@dataclass(frozen=True)
class Template:
    """A table to fill in.

    Attributes
    ----------
    name : str
        ``own-coruns`` or ``own-profiles``, as the formats are called.
    title : str
        For a button.
    columns : tuple of Column
        What the table may hold, in order.
    extra : tuple of str
        Columns of the example beyond the documented ones.
    rows : tuple of mapping
        The example, ready to load.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    extra: tuple[str, ...]
    rows: tuple[Mapping[str, str], ...]

    @property
    def file_name(self) -> str:
        """Name of the file to download."""
        return f"stallscope-{self.name.removeprefix('own-')}-template.csv"

    @property
    def header(self) -> list[str]:
        """Names of all columns."""
        return [*(column.name for column in self.columns), *self.extra]

    def csv(self) -> str:
        """Return the template with its example rows as CSV."""
        out = io.StringIO()
        writer = csv.DictWriter(out, self.header, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()

    def parquet(self) -> bytes:
        """Return the same as Parquet, numbers as numbers."""
        text = pd.read_csv(io.StringIO(self.csv()), dtype=str, keep_default_na=False)
        numeric = {column.name for column in self.columns if column.kind != "text"} | set(self.extra)
        frame = text.assign(**{name: pd.to_numeric(text[name]) for name in text.columns if name in numeric})
        out = io.BytesIO()
        frame.to_parquet(out, index=False)
        return out.getvalue()


_GPU = {"gpu": "A100-40GB"}
_RESNET = {
    "model": "resnet50", "family": "ResNet", "dataset": "ImageNet", "batch_size": "64", "precision": "amp",
    "phase": "training",
}  # fmt: skip
_BERT = {
    "model": "bert-base",
    "family": "BERT",
    "dataset": "SQuAD",
    "batch_size": "16",
    "precision": "amp",
    "phase": "training",
}
_SHARE = {**_GPU, "mechanism": MPS, "unit": "samples/s", "thread_percentage": "100", "memory_kind": "nvidia-smi"}

CORUNS = Template(
    name="own-coruns",
    title="Table of co-runs",
    columns=CORUN_COLUMNS,
    extra=(),
    rows=(
        {
            "run_id": "run-1", "slot": "0", **_SHARE, **_RESNET, "solo_throughput": "812.4",
            "corun_throughput": "561.0", "peak_memory_mib": "9410", "outcome": "ran",
        },
        {
            "run_id": "run-1", "slot": "1", **_SHARE, **_BERT, "solo_throughput": "148.2", "corun_throughput": "103.9",
            "peak_memory_mib": "11804", "outcome": "ran",
        },
        {
            "run_id": "run-2", "slot": "0", **_SHARE, **_BERT, "solo_throughput": "148.2", "peak_memory_mib": "11804",
            "outcome": "did_not_run",
        },
        {
            "run_id": "run-2", "slot": "1", **_SHARE, "workload": "llama-7b-lora_bs8_bf16_training",
            "solo_throughput": "6.1", "peak_memory_mib": "33150", "outcome": "did_not_run",
        },
    ),
)  # fmt: skip

PROFILES = Template(
    name="own-profiles",
    title="Table of profiles",
    columns=PROFILE_COLUMNS,
    extra=(
        "compute_throughput [%]", "dram_throughput [%]", "stall_long_scoreboard", "stall_math_pipe_throttle",
        "stall_wait",
    ),
    rows=(
        {
            **_RESNET, **_GPU, "solo_throughput": "812.4", "unit": "samples/s", "peak_memory_mib": "9410",
            "memory_kind": "nvidia-smi", "compute_throughput [%]": "61.5", "dram_throughput [%]": "48.0",
        },
        {
            **_RESNET, **_GPU, "kernel": "sm80_xmma_fprop_implicit_gemm", "grid": "(784, 1, 1)", "block": "(128, 1, 1)",
            "invocations": "53", "duration_us": "118.2", "compute_throughput [%]": "74.1",
            "dram_throughput [%]": "35.9", "stall_long_scoreboard": "21.4", "stall_math_pipe_throttle": "33.0",
            "stall_wait": "11.7",
        },
        {
            **_RESNET, **_GPU, "kernel": "bn_fw_tr_1C11_kernel_NCHW", "grid": "(64, 1, 1)", "block": "(512, 1, 1)",
            "invocations": "53", "duration_us": "61.0", "compute_throughput [%]": "22.8",
            "dram_throughput [%]": "81.3", "stall_long_scoreboard": "64.9", "stall_math_pipe_throttle": "0.8",
            "stall_wait": "5.2",
        },
    ),
)  # fmt: skip

TEMPLATES: tuple[Template, ...] = (CORUNS, PROFILES)


def column_table(columns: Sequence[Column]) -> str:
    """Return the columns as a Markdown table: name, what it holds, meaning."""
    lines = ["| column | holds | meaning |", "|---|---|---|"]
    for column in columns:
        limits = [
            f"above {column.above:g}" if column.above is not None else "",
            f"{column.least:g} or more" if column.least is not None else "",
            f"at most {column.most:,.0f}" if column.most is not None else "",
        ]
        holds = ", ".join([{"integer": "whole number"}.get(column.kind, column.kind), *filter(None, limits)])
        lines.append(f"| `{column.name}` | {holds} | {column.meaning} |")
    return "\n".join(lines)
