"""The white-box predictor as a model that nobody has to train: it asks for profiles, never for a co-run."""

from __future__ import annotations

from analysis.errors import NotEnoughDataError, NotFoundError, UsageError
from analysis.ingest.formats.ncu.advice import COMMAND
from analysis.predict.frame import profiles
from analysis.predict.frame.terms import WHITE_BOX, schema
from analysis.predict.frame.whitebox_sets import launches_of
from analysis.predict.models.manifest import Manifest, package_versions, schema_hash
from analysis.predict.predictors.registry import get
from analysis.predict.predictors.whitebox import WhiteBox
from analysis.reference import gpus as reference
from analysis.reference.mechanism_names import MPS, STREAMS
from analysis.sharing.recover import NEEDED
from analysis.sharing.whitebox import missing
from analysis.store.database import Database
from analysis.store.queries.sources import is_simulated, own_simulator, require_dataset

#: Predictor, and the first part of its model's name; the data set with the profiles is the second.
NAME = "white-box"
_START = f"{NAME}:"
#: How jobs may share that it can be asked about without knowing who got what.
_MECHANISMS = [MPS, STREAMS, "time-slicing", "static SM partition"]


def asked_for(model_id: str) -> str | None:
    """Return the data set whose profiles a model's name asks for; None for a model that was trained.

    Raises
    ------
    UsageError
        If it names the predictor and no data set.
    """
    if model_id == NAME:
        raise UsageError("white-box needs the data set that holds the profiles", f"Write {_START}DATASET.")
    return model_id.removeprefix(_START) if model_id.startswith(_START) else None


def card(database: Database, dataset: str) -> Manifest:
    """Return the card of the white-box predictor on a data set's profiles: what it can be asked, and zero runs.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        The data set with the profiles.

    Raises
    ------
    NotFoundError
        If there is no such data set.
    NotEnoughDataError
        If no profile there has all that it takes.
    """
    require_dataset(database, dataset)
    found = launches_of(database, dataset)
    lacking = missing(found)
    given = found.rename(columns={"occupancy": "warps"})
    complete = given.iloc[:0] if lacking else given.dropna(subset=list(NEEDED))
    gpus = [gpu for gpu in sorted(set(complete["gpu"].astype(str))) if _published(gpu)]
    if not gpus:
        raise NotEnoughDataError(
            f"the white box needs: stall profiles; those of {dataset} lack {', '.join(lacking) or 'a GPU it knows'}",
            f"Profile each job alone with `{COMMAND}`.",
        )
    jobs = sorted(set(complete.loc[complete["gpu"].isin(gpus), "workload"].astype(str)))
    table = profiles.collect(database, dataset)
    family = table["family"].groupby(level="workload").first()
    simulated = is_simulated(database, dataset)
    spec = get(NAME)
    return Manifest(
        model_id=f"{_START}{dataset}",
        predictor=NAME,
        title=spec.title,
        source=spec.source,
        dataset=dataset,
        simulated=simulated,
        gpus=gpus,
        mechanisms=_MECHANISMS,
        workloads=jobs,
        families=sorted({str(family.get(job, job)) for job in jobs}),
        k=[2, 3, 4],
        rows=0,
        runs=0,
        left_out={},
        flagged=[],
        notes=["It shares its model with the simulator that made these data."] * own_simulator(database, dataset),
        data_hash="",
        schema_hash=schema_hash(schema()),
        columns=[WHITE_BOX],
        ranges={},
        calibration={},
        versions=package_versions(),
        created_at="",
        payload_sha256="",
        payload_bytes=0,
    )


def available(database: Database, dataset: str) -> list[Manifest]:
    """Return the card in a list, empty where the data set's profiles don't carry it."""
    try:
        return [card(database, dataset)]
    except (NotEnoughDataError, NotFoundError):
        return []


def estimator() -> WhiteBox:
    """Return the predictor, which has nothing to learn."""
    return WhiteBox().untrained()


def _published(gpu: str) -> bool:
    return gpu in reference.load(simulated=True).index
