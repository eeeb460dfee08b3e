"""Options that several commands share, said once so that they read the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from analysis.settings import get_settings


class Protocol(StrEnum):
    """How training and test rows are kept apart."""

    random_rows = "random-rows"
    unseen_pair = "unseen-pair"
    leave_one_workload_out = "leave-one-workload-out"
    leave_one_family_out = "leave-one-family-out"
    unseen_gpu = "unseen-gpu"
    pairs_to_k = "pairs-to-k"
    few_shot = "few-shot"


class By(StrEnum):
    """What one row of the stall shares stands for."""

    workload = "workload"
    name = "name"
    kernel = "kernel"
    launch = "launch"


DbOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--db",
        metavar="FILE",
        dir_okay=False,
        help="The DuckDB file. By default what STALLSCOPE_DB says, else one in your data directory.",
    ),
]
JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print exactly one JSON document to standard output.")
]
DatasetOption: TypeAlias = Annotated[str, typer.Option("--dataset", metavar="D", help="Name of a loaded data set.")]
MaybeDatasetOption: TypeAlias = Annotated[
    str | None, typer.Option("--dataset", metavar="D", help="Only this data set; all when left out.")
]
GpuOption: TypeAlias = Annotated[
    str, typer.Option("--gpu", metavar="G", help="The GPU, by its name or a family's (V100, A100-40GB).")
]
MaybeGpuOption: TypeAlias = Annotated[
    str | None, typer.Option("--gpu", metavar="G", help="Only this GPU, by its name or a family's (V100, A100-40GB).")
]
MaybeMechanismOption: TypeAlias = Annotated[
    str | None, typer.Option("--mechanism", metavar="M", help="Only this sharing mechanism, such as 'CUDA MPS'.")
]
ProtocolOption: TypeAlias = Annotated[
    Protocol, typer.Option("--protocol", metavar="P", help="One of: " + ", ".join(Protocol) + ".")
]
ModelOption: TypeAlias = Annotated[
    str, typer.Option("--model", metavar="ID", help="Id of a trained model; `stallscope models` lists them.")
]
JobsOption: TypeAlias = Annotated[
    list[str],
    typer.Option("--job", metavar="W", help="A workload that shares the GPU; once for each job, twice for a twin."),
]
ThreadsOption: TypeAlias = Annotated[
    list[float] | None,
    typer.Option(
        "--threads", metavar="PCT", help="MPS thread percentage of each job, in their order; 100 is a client without."
    ),
]
LimitOption: TypeAlias = Annotated[
    float,
    typer.Option(
        "--limit",
        metavar="X",
        default_factory=lambda: get_settings().limit,
        show_default="1.2, or STALLSCOPE_LIMIT",
        help="Largest slowdown that each job may have, at least 1.",
    ),
]
MaybeModelOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="ID", help="Id of a trained model; the one that answers for the data set when left out."
    ),
]
FlaggedOption: TypeAlias = Annotated[
    bool, typer.Option("--include-flagged", help="Keep workloads and members that the data checks flag.")
]
