"""What can be asked: the fields of every request, checked before anything is looked up."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from analysis.interference.decision import usual_limit
from analysis.reference.mechanism_names import MPS


def _text(value: str) -> str:
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise ValueError("holds control characters")
    return value


#: A name of something in the database, as any file may have brought it.
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_text)]

_GPU = Field(description="The GPU, by its name or a family's (V100, A100-40GB).")
_MECHANISM = Field(default=None, description="Only this sharing mechanism, such as 'CUDA MPS'.")
_DATASET = Field(description="Name of a loaded data set.")
_LIMIT = Field(
    default_factory=usual_limit, ge=1, le=1000,
    description="Largest slowdown that each job may have; that of the settings (1.2) when left out.",
)  # fmt: skip


class Question(BaseModel):
    """Base of all requests: a field that nobody knows is an error, not silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Nothing(Question):
    """A request without fields."""


class ModelsQuestion(Question):
    """Which models there are."""

    dataset: Name | None = Field(default=None, description="Only models of this data set.")


class MatrixQuestion(Question):
    """Who slows whom."""

    dataset: Name = _DATASET
    gpu: Name = _GPU
    mechanism: Name | None = _MECHANISM


class StallsQuestion(Question):
    """What warps wait for."""

    dataset: Name | None = Field(default=None, description="Only profiles of this data set.")
    gpu: Name | None = Field(default=None, description="Only profiles of this GPU, by its name or a family's.")
    workload: tuple[Name, ...] = Field(default=(), max_length=64, description="Only this job; may be repeated.")
    by: Literal["workload", "kernel", "launch"] = Field(default="workload", description="What one row stands for.")


class ExplainQuestion(Question):
    """Why a model predicts what it does."""

    model: Name | None = Field(
        default=None, description="Id of a trained model; the one that answers for the data set when left out."
    )
    dataset: Name | None = Field(default=None, description="Data set of the jobs, where no model is named.")
    gpu: Name = _GPU
    jobs: tuple[Name, ...] = Field(min_length=2, max_length=16, description="Workloads that share the GPU.")
    mechanism: Name | None = _MECHANISM


class PredictQuestion(Question):
    """What each job of a set would pay."""

    model: Name | None = Field(
        default=None, description="Id of a trained model; the one that answers for the data set when left out."
    )
    gpu: Name = _GPU
    limit: float = _LIMIT
    jobs: tuple[Name, ...] = Field(
        min_length=1, max_length=16, description="Workloads that share the GPU; a name twice for a twin."
    )
    mechanism: Name | None = _MECHANISM
    dataset: Name | None = Field(
        default=None, description="Data set that holds the jobs' profiles; the model's own when left out."
    )


class PredictSetsQuestion(Question):
    """Whether the jobs of each of many sets may share."""

    model: Name | None = Field(
        default=None, description="Id of a trained model; the one that answers for the data set when left out."
    )
    dataset: Name | None = Field(default=None, description="Data set of the jobs, where no model is named.")
    gpu: Name = _GPU
    mechanism: Name | None = _MECHANISM
    limit: float = _LIMIT
    sets: tuple[Annotated[tuple[Name, ...], Field(min_length=2, max_length=16)], ...] = Field(
        min_length=1, max_length=10_000, description="The sets; each names its jobs."
    )


class ReportQuestion(Question):
    """A report on a data set."""

    dataset: Name = _DATASET
    format: Literal["json", "html", "csv"] = Field(default="json", description="What to render.")
    gpu: tuple[Name, ...] = Field(default=(), max_length=32, description="Only this GPU; may be repeated.")
    mechanism: tuple[Name, ...] = Field(default=(), max_length=32, description="Only this one; may be repeated.")
    model: Name | None = Field(default=None, description="Add a trained model's card and reasons.")
    limit: float = _LIMIT
    job: tuple[Name, ...] = Field(default=(), max_length=16, description="A job for the model to predict.")


class ImportQuestion(Question):
    """What the files of an upload are, where they don't say it themselves."""

    dataset: Name = Field(default="own", description="Data set to load into.")
    workload: Name | None = Field(default=None, description="The job that the profiles are of; else the file's name.")
    gpu: Name | None = Field(default=None, description="The GPU of the profiles; else what the file tells.")


class JobQuestion(Question):
    """One job that wants a place."""

    job: Name | None = Field(default=None, description="Its own name; made from the workload when left out.")
    workload: Name = Field(description="What it runs, as the library names it.")
    owner: str = Field(default="", max_length=500, description="Under CUDA MPS jobs of different owners never share.")
    gpus: int = Field(default=1, ge=1, le=1024, description="Whole GPUs that it needs.")
    peak_memory_mib: float | None = Field(default=None, ge=0, le=1e9, description="As nvidia-smi shows it.")
    limit: float | None = Field(default=None, ge=1, le=1000, description="Its own limit.")
    priority: int = Field(default=0, ge=-1000, le=1000, description="Higher is placed first.")
    threads: float | None = Field(default=None, gt=0, le=100, description="MPS thread percentage of its client.")


_MODEL = Field(default=None, description="Id of a trained model for what was not measured.")
_RESERVE = Field(default=0.05, ge=0, lt=1, description="Part of a GPU's memory that shared jobs leave free.")


class PlanQuestion(Question):
    """Where jobs go."""

    jobs: tuple[Name | JobQuestion, ...] = Field(
        min_length=1, max_length=2000, description="Jobs, or the names of their workloads."
    )
    gpus: dict[str, Annotated[int, Field(ge=0, le=10_000)]] = Field(
        min_length=1, max_length=32, description="How many GPUs of each kind there are."
    )
    dataset: Name | None = Field(default=None, description="Where the figures come from.")
    model: Name | None = _MODEL
    mechanism: Name | None = _MECHANISM
    limit: float = _LIMIT
    k: int = Field(default=2, ge=1, le=6, description="Most jobs on one GPU.")
    objective: Literal["stp", "antt", "worst", "fairness", "gpus"] = Field(default="stp", description="Best in what.")
    risk: Literal["expected", "upper", "probability"] = Field(default="expected", description="Which figure counts.")
    reserve: float = _RESERVE
    wanted: tuple[tuple[Name, Name], ...] = Field(
        default=(), max_length=2000, description="Pairs of jobs that must share a GPU."
    )
    forbidden: tuple[tuple[Name, Name], ...] = Field(
        default=(), max_length=2000, description="Pairs of jobs that must not share a GPU."
    )
    over_limit: bool = Field(default=False, description="Share beyond the limit rather than let jobs wait.")
    time_limit: float = Field(default=10.0, gt=0, le=60, description="Seconds for the search.")


class SplitQuestion(Question):
    """How to cut one GPU for some jobs."""

    gpu: Name = _GPU
    jobs: tuple[Name, ...] = Field(min_length=2, max_length=4, description="Workloads that get a part each.")
    dataset: Name | None = Field(default=None, description="Where their profiles are.")
    mechanism: Name = Field(default=MPS, description="What cuts the GPU: CUDA MPS, static SM partition, or MIG.")
    limit: float = _LIMIT
    reserve: float = _RESERVE


class JoinQuestion(Question):
    """Whether one job may join a running GPU."""

    gpu: Name = _GPU
    workload: Name = Field(description="The workload that would join.")
    running: tuple[Name, ...] = Field(default=(), max_length=16, description="Workloads that run there.")
    dataset: Name | None = Field(default=None, description="Where the figures come from.")
    model: Name | None = _MODEL
    mechanism: Name | None = _MECHANISM
    limit: float = _LIMIT
    reserve: float = _RESERVE
