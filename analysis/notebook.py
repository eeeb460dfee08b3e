"""StallScope from Python: open a database or load files, ask, and get answers that show themselves in a notebook.

`load` and `open` return a `Session`; each of its methods asks one question of the engine and returns an `Answer`: the
sentences, the table and the picture that the page of the same name shows, and the document that the command of the same
name prints with ``--json``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.errors import InputRefusedError, UsageError, Where
from analysis.numbers import WORDS, capital, format_value
from analysis.report.document import Column, Table
from analysis.report.table import columns_of, table
from analysis.settings import get_settings
from analysis.store.database import Database

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from analysis.predict.models.manifest import Manifest

#: Rows that a notebook shows of a table; `Answer.table` has all.
SHOWN_ROWS = 40


@dataclass(frozen=True, repr=False)
class Answer:
    """What a question gave.

    Attributes
    ----------
    title : str
        What was asked.
    sentences : tuple of str
        The answer in words, the most important first, with what has to be known of it.
    table : pd.DataFrame
        Its figures, one row a record; raw values with the names of the command's JSON.
    columns : tuple of Column
        What of the table is shown, and how.
    document : object
        The same as plain values: what the command of the same name prints with ``--json``.
    """

    title: str
    sentences: tuple[str, ...]
    table: pd.DataFrame
    columns: tuple[Column, ...]
    document: Any
    draw: Callable[[], go.Figure] | None = field(default=None, compare=False)

    @property
    def figure(self) -> go.Figure | None:
        """The picture, or None where words and a table say it all."""
        return None if self.draw is None else self.draw()

    def to_json(self) -> Any:
        """Return the plain values of the answer."""
        return self.document

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        shown = self._shown()
        rows = [
            {column.header: format_value(row[index], column.kind) for index, column in shown.shown()}
            for row in shown.rows[:SHOWN_ROWS]
        ]
        text = pd.DataFrame(rows).to_string(index=False) if rows else ""
        rest = f"and {len(shown.rows) - SHOWN_ROWS:,} rows more" if len(shown.rows) > SHOWN_ROWS else ""
        return "\n".join(part for part in (self.title, *self.sentences, text, rest) if part)

    def _repr_html_(self) -> str:
        """Return the answer for a notebook, every name in it escaped."""
        from jinja2 import Environment

        shown = self._shown()
        columns = [(index, column, column.kind in WORDS) for index, column in shown.shown()]
        rows = [
            [(format_value(row[index], column.kind), word) for index, column, word in columns]
            for row in shown.rows[:SHOWN_ROWS]
        ]
        return Environment(autoescape=True).from_string(_TEMPLATE).render(
            title=self.title, sentences=self.sentences, columns=columns, rows=rows,
            rest=max(len(shown.rows) - SHOWN_ROWS, 0),
        )  # fmt: skip

    def _ipython_display_(self) -> None:
        """Show words, table and picture below each other; called by notebooks alone."""
        from IPython.display import HTML, display

        display(HTML(self._repr_html_()))
        if (figure := self.figure) is not None:
            display(figure)

    def _shown(self) -> Table:
        return table(self.title, self.table, self.columns)


_TEMPLATE = """<div><strong>{{ title }}</strong>
{% for sentence in sentences %}<p style="margin:0.3em 0">{{ sentence }}</p>{% endfor %}
{% if rows %}<table><thead><tr>{% for _, column, word in columns %}
<th style="text-align:{{ 'left' if word else 'right' }}">{{ column.header }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in rows %}<tr>{% for text, word in row %}
<td style="text-align:{{ 'left' if word else 'right' }}">{{ text }}</td>{% endfor %}</tr>{% endfor %}</tbody></table>
{% if rest %}<p>and {{ '{:,}'.format(rest) }} rows more</p>{% endif %}{% endif %}</div>"""


class Session:
    """An open database; close it, or use it in a ``with`` statement.

    Parameters
    ----------
    database : Database
        The open database, which the session closes.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; the session can't be used afterwards."""
        self.database.close()

    def __repr__(self) -> str:
        names = ", ".join(self.datasets().table["name"].astype(str)) or "empty"
        return f"<stallscope session on {self.database.path or 'memory'}: {names}>"

    def datasets(self) -> Answer:
        """Say which data sets are loaded, with their licence and citation."""
        from analysis.report.plain import plain
        from analysis.store.queries.sources import datasets

        found = datasets(self.database)
        columns = columns_of(*(name for name in ("name", "title", "simulated", "licence") if name in found))
        said = f"{len(found)} data set{'' if len(found) == 1 else 's'}."
        return Answer("What is loaded", (said,), found, columns, plain(found))

    def load(
        self,
        *paths: Path | str,
        workload: str | None = None,
        gpu: str | None = None,
        dataset: str = "own",
        mapping: str | None = None,
        strict: bool = True,
    ) -> Answer:
        """Read files, folders and patterns into the database.

        Parameters
        ----------
        *paths : Path or str
            What to read; the content decides the format.
        workload, gpu : str, optional
            Of profiles that don't say it themselves.
        dataset : str
            The data set that the files belong to.
        mapping : str, optional
            A saved mapping to read tables by.
        strict : bool
            Raise where a file is refused; otherwise its row of the answer says why. What was read stays either way.

        Returns
        -------
        Answer
            One row a file.

        Raises
        ------
        InputRefusedError
            If a file is refused and ``strict`` is set: the first one's reason.
        """
        from analysis.ingest.importer import import_paths

        if not paths:
            raise UsageError("there is nothing to load", "Name one or more files.")
        reports = import_paths(
            self.database, paths, workload=workload, gpu=gpu, dataset=dataset, mapping=mapping
        )  # fmt: skip
        refused = [report for report in reports if report.status == "rejected"]
        if refused and strict:
            first = refused[0]
            what, cure = first.report.get("what"), first.report.get("cure")
            raise InputRefusedError(
                str(what or first.error), str(cure or ""),
                Where(first.file, first.report.get("line"), first.report.get("column")),
            )  # fmt: skip
        rows = pd.DataFrame([report.model_dump(mode="json") for report in reports])
        said = [f"{report.file}: {text}" for report in reports for text in [*report.warnings, report.error] if text]
        columns = columns_of(
            "file", "status", "format", "rows_read", "rows_rejected", "launches", "runs/coruns", "gpus"
        )
        return Answer("What was read", tuple(said), rows, columns, rows.to_dict("records"))

    def load_dataset(self, name: str, *files: Path | str) -> Answer:
        """Load a set of the catalogue: one that ships with StallScope, a download, or local copies of its files.

        Raises
        ------
        NotFoundError
            If the catalogue has no such set.
        """
        from analysis.ingest import catalogue

        entry = catalogue.entry(name)
        reports = catalogue.load_dataset(self.database, name, files=[Path(file) for file in files])
        rows = pd.DataFrame([report.model_dump(mode="json") for report in reports])
        said = (f"{entry.title}. Licence: {entry.licence}. Cite: {entry.citation}",)
        columns = columns_of("file", "status", "format", "rows_read", "launches", "runs/coruns", "gpus")
        return Answer(f"The data set {name}", said, rows, columns, rows.to_dict("records"))

    def stalls(
        self,
        *workloads: str,
        gpu: str | None = None,
        dataset: str | None = None,
        by: str = "workload",
    ) -> Answer:
        """Say what the warps of a profile wait for, as shares of warp cycles in percent.

        Parameters
        ----------
        *workloads : str
            Only these; all by default.
        gpu, dataset : str, optional
            Only this GPU and this data set.
        by : {"workload", "kernel", "launch"}
            What one row stands for.
        """
        from analysis.charts.stall_bars import stall_bars
        from analysis.report.plain import plain
        from analysis.stalls.shares import stall_shares
        from analysis.store.queries.profiles import chosen_profiles

        shares = stall_shares(self.database, chosen_profiles(self.database, gpu, dataset, workloads), by=by)
        columns = columns_of(
            "workload", "gpu", "short_name", "reason", "group", "share", "accounted", "launches", "simulated"
        )
        said: list[str] = []
        for keys, part in shares.groupby(["workload", "gpu"], sort=False):
            top = part.sort_values("share", ascending=False).iloc[0]
            said.append(f"{keys[0]} on {keys[1]} waits most for {top['reason']}: {top['share']:.1f} % of warp cycles.")
        if shares.empty:
            said.append("No stall reasons are loaded for this choice: load Nsight Compute profiles that hold them.")
        draw = None if shares.empty else lambda: stall_bars(shares)
        return Answer("What the warps wait for", tuple(said[:6]), shares, columns, plain(shares), draw)

    def matrix(self, gpu: str | None = None, *, dataset: str = "own", mechanism: str | None = None) -> Answer:
        """Say who slows whom: the row's slowdown beside the column's.

        Returns
        -------
        Answer
            One row a directed pair; `Answer.figure` is the heat map.
        """
        from analysis.charts.slowdown_heatmap import slowdown_heatmap
        from analysis.interference.matrix import slowdown_matrix

        found = slowdown_matrix(self.database, dataset, gpu, mechanism=mechanism)
        cells = found.table()
        cells = cells[cells["state"] != "not_measured"].sort_values("slowdown", ascending=False, kind="stable")
        document = found.to_json()
        said = [f"{document['n']} runs of {len(document['workloads'])} jobs on {document['gpu']}.", *document["notes"]]
        columns = columns_of("workload/slowed", "beside", "slowdown", "state", "runs")
        return Answer("Who slows whom", tuple(said), cells, columns, document, lambda: slowdown_heatmap(found))

    def train(
        self,
        *,
        dataset: str = "own",
        predictor: str | None = None,
        gpu: str | None = None,
        mechanism: str | None = None,
    ) -> Manifest:
        """Train a predictor on the measured co-runs of a data set, and store it.

        Returns
        -------
        Manifest
            What the model is; ``model_id`` names it.
        """
        from analysis.predict.models import models
        from analysis.predict.predictors.registry import DEFAULT

        return models.train(self.database, dataset, predictor or DEFAULT, gpu, mechanism)

    def predict(
        self,
        jobs: Sequence[str],
        *,
        gpu: str,
        dataset: str | None = "own",
        model: str | None = None,
        mechanism: str | None = None,
        threads: Sequence[float | None] | None = None,
        limit: float | None = None,
    ) -> Answer:
        """Say whether jobs may share a GPU, and what each would pay.

        Parameters
        ----------
        jobs : sequence of str
            The set; a job named twice is there twice.
        gpu : str
            Where.
        dataset : str, optional
            Where the jobs' profiles and co-runs are; the model's own data set for None.
        model : str, optional
            A trained model; what answers for the data set by default, which without any model is its measurements.
        mechanism : str, optional
            How the GPU is shared; the one with most runs by default.
        threads : sequence of float, optional
            MPS thread percentage of each job.
        limit : float, optional
            Largest slowdown that a job may pay; that of the settings by default.
        """
        from analysis.predict.models import models

        asked = self._model(model, dataset)
        found = models.predict(
            self.database, asked, gpu, list(jobs), mechanism, dataset, threads, limit or get_settings().limit
        )
        first = found[0]
        rows = pd.DataFrame([one.to_json() for one in found])
        said = [f"{capital(first.verdict)} (limit {first.limit:g} x): {first.why}"]
        said += [f"{one.workload}: {text}." for one in found for text in (*one.reasons, *one.missing)]
        columns = columns_of(
            "workload/job", "slowdown", "low/interval", "high/interval", "measured", "evidence", "memory",
            "within_limit", slowdown={"low": "low", "high": "high"},
        )  # fmt: skip
        return Answer(
            f"May {' and '.join(jobs)} share one {gpu}?", tuple(dict.fromkeys(said)), rows, columns,
            rows.to_dict("records"),
        )  # fmt: skip

    def explain(
        self,
        jobs: Sequence[str],
        *,
        gpu: str,
        dataset: str | None = "own",
        model: str | None = None,
        mechanism: str | None = None,
    ) -> Answer:
        """Say why a model predicts what it does for each job of a set; contributions are in ln S and add up."""
        from analysis.charts.explanations import waterfall
        from analysis.predict.explain.explain import explain

        found = explain(self.database, self._model(model, dataset), gpu, list(jobs), mechanism, dataset)
        parts = [one.table().assign(workload=one.workload) for one in found]
        columns = columns_of("workload/job", "feature", "value", "whose", "group", "factor", "shap")
        first = found[0]

        def draw() -> go.Figure:
            return waterfall(first.base, first.to_json()["contributions"], first.prediction)

        return Answer(
            f"Why these slowdowns on {gpu}", tuple(one.sentence for one in found), pd.concat(parts, ignore_index=True),
            columns, [one.to_json() for one in found], draw,
        )  # fmt: skip

    def evaluate(
        self,
        protocol: str = "unseen-pair",
        *,
        dataset: str = "own",
        predictors: Iterable[str] | None = None,
        gpu: str | None = None,
        mechanism: str | None = None,
    ) -> Answer:
        """Compare predictors under one protocol, beside the baselines.

        Parameters
        ----------
        protocol : str
            What is left out of training, such as ``unseen-pair`` or ``leave-one-workload-out``.
        predictors : iterable of str, optional
            Names, or ``package:Class`` of your own; all by default.
        """
        from analysis.predict.evaluate.evaluate import evaluate
        from analysis.report import comparison

        chosen = None if predictors is None else list(predictors)
        found = evaluate(self.database, dataset, protocol, predictors=chosen, gpu=gpu, mechanism=mechanism)
        rows = pd.DataFrame(comparison.records(found.rows))
        said = (f"{dataset}, protocol {protocol}: {found.sentence}.", *found.notes)
        summary = found.summary()
        return Answer(
            "Which predictor to believe", said, rows, comparison.COLUMNS, list(found.rows),
            lambda: comparison.bars(summary),
        )  # fmt: skip

    def plan(
        self,
        jobs: Sequence[str] | Path | str,
        gpus: Mapping[str, int],
        *,
        dataset: str | None = "own",
        model: str | None = None,
        mechanism: str | None = None,
        limit: float | None = None,
        k: int = 2,
        objective: str = "stp",
        time_limit: float = 30.0,
    ) -> Answer:
        """Say which jobs go together on which GPU, and what that gains.

        Parameters
        ----------
        jobs : sequence of str, or path
            Workloads, one entry a job; or a file as `stallscope plan --jobs` takes it.
        gpus : mapping of str to int
            How many there are of each kind.
        k : int
            Most jobs on one GPU.
        """
        from typing import cast

        from analysis.plan import planner, wording
        from analysis.plan.jobs import JobList, read_jobs
        from analysis.plan.problem import Job, Objective, gpu_kind

        if isinstance(jobs, Path | str):
            listed = read_jobs(Path(jobs))
        else:
            listed = JobList(tuple(Job(f"{name}-{at}", name) for at, name in enumerate(jobs, start=1)), "table")
        found = planner.make_plan(
            self.database, listed, [gpu_kind(name, count) for name, count in gpus.items()], dataset=dataset,
            model_id=model, mechanism=mechanism, k=k, limit=limit or get_settings().limit,
            objective=cast("Objective", objective), time_limit=time_limit,
        )  # fmt: skip
        document = found.to_json()
        said = [wording.answer(found), *(f"{one['job']} waits. {one['why']}" for one in document["refused"])]
        columns = columns_of(
            "gpu", "job", "workload", "owner", "slowdown", "limit", "verdict/set", "within_limit", "evidence",
            slowdown={"low": "low", "high": "high"},
        )  # fmt: skip
        rows = pd.DataFrame(wording.board(found.plan))
        return Answer("Where the jobs go", (*said, *found.notes), rows, columns, document)

    def report(
        self,
        out: Path | str,
        *,
        dataset: str = "own",
        kind: str = "dataset",
        jobs: Sequence[str] = (),
        gpu: str | None = None,
        model: str | None = None,
        limit: float | None = None,
    ) -> Path:
        """Write a report that can be handed on; the ending decides: .html, .json, .csv, .parquet or .pdf.

        Returns
        -------
        Path
            The file.
        """
        from typing import cast

        from analysis.report.kinds import KindName, Wanted, make
        from analysis.report.render import renderer, write

        path = Path(out)
        renderer(path)
        wanted = Wanted(
            cast("KindName", kind), dataset, () if gpu is None else (gpu,), model_id=model, jobs=tuple(jobs),
            limit=limit or get_settings().limit,
        )  # fmt: skip
        write(make(self.database, wanted), path)
        return path

    def _model(self, model: str | None, dataset: str | None) -> str:
        from analysis.predict.models.activemodel import answering

        if model is not None:
            return model
        if dataset is None:
            raise UsageError("neither a model nor a data set is named", "Give model or dataset.")
        return answering(self.database, dataset)


def open(path: Path | str | None = None, *, read_only: bool = False) -> Session:
    """Open a database.

    Parameters
    ----------
    path : Path or str, optional
        The DuckDB file, made where it is missing; that of the settings by default.
    read_only : bool
        Whether nothing may be written, so that a server may use it at the same time.
    """
    return Session(Database(get_settings().db if path is None else Path(path), read_only=read_only))


def load(
    *paths: Path | str,
    workload: str | None = None,
    gpu: str | None = None,
    dataset: str = "own",
    mapping: str | None = None,
) -> Session:
    """Read files into a database in memory; see `Session.load`.

    Raises
    ------
    InputRefusedError
        If a file is refused: the first one's reason.
    """
    session = Session(Database(None))
    try:
        session.load(*paths, workload=workload, gpu=gpu, dataset=dataset, mapping=mapping)
    except BaseException:
        session.close()
        raise
    return session
