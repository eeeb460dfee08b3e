"""A report made by hand, with names that try to act."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from analysis.report.document import Column, Figure, Matrix, Notice, ReportDocument, Section, Source, Table, Text

HOSTILE = (
    "<script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "**bold** [link](javascript:window.hacked=1) `code`",
    "<a href='javascript:window.hacked=1'>press</a>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe\u202c",
    "kernel<float, (int)4>" * 240,
)


def chart(*names: str) -> dict[str, Any]:
    """A bar chart with names on its axis, in its hover texts and its title."""
    return {
        "data": [{"type": "bar", "x": list(names), "y": list(range(1, len(names) + 1)), "hovertext": list(names)}],
        "layout": {"title": {"text": names[0]}, "height": 300},
    }


def make_document(*names: str, **changes: Any) -> ReportDocument:
    """A report that uses the names wherever a name can stand."""
    n = len(names)
    square = tuple(tuple(1.0 + 0.3 * (i + j) for j in range(n)) for i in range(n))
    state = tuple(tuple("flagged" if i == j else "measured" for j in range(n)) for i in range(n))
    columns = (
        Column(key="workload", label=names[0]),
        Column(key="mape", label="MAPE", kind="percent", low="low", high="high"),
        Column(key="low", label="low", kind="percent"),
        Column(key="high", label="high", kind="percent"),
        Column(key="n", label="n", kind="count"),
    )
    rows = tuple((name, 5.934, 5.1, None if i else 6.8, 1234) for i, name in enumerate(names))
    blocks = (
        Text(sentences=names),
        *(Notice(level="warning", sentence=name) for name in names),
        Table(title=names[0], columns=columns, rows=rows, caption=names[-1], strong=(0,)),
        Matrix(
            title=names[0], gpu="V100", mechanism="CUDA MPS", workloads=names, slowdown=square, low=square, high=square,
            stp=square, state=state, runs=((1,) * n,) * n, caption=names[-1],
        ),
        Figure(title=names[0], alternative=names[-1], plotly=chart(*names)),
        Figure(title="again", alternative="the same again", plotly=chart(*names)),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "kind": "data set",
        "title": names[0],
        "subtitle": names[1],
        "created_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "provenance": "measured",
        "summary": names,
        "filters": names,
        "sections": (Section(key="one", title=names[0], blocks=blocks), Section(key="two", title="two", blocks=())),
        "sources": tuple(
            Source(
                file=name, dataset=name, format="own-corun", sha256="0" * 64, rows_read=3, rows_loaded=2,
                rows_rejected=1, simulated=False, licence=name, citation=name,
            )
            for name in names
        ),
        "software": {"stallscope": "0.1.0"},
        "reproduce": names,
    }  # fmt: skip
    return ReportDocument(**{**fields, **changes})


@pytest.fixture
def hostile() -> ReportDocument:
    """A report whose every name tries to act."""
    return make_document(*HOSTILE)


@pytest.fixture
def harmless() -> ReportDocument:
    """A report with ordinary names."""
    return make_document("BERT", "ResNet-50", "GNN")
