"""Tables for papers: figures as on the page, intervals beside them, hostile names harmless."""

from __future__ import annotations

from analysis.report.latex import comparison_latex, escape, to_latex
from analysis.report.table import column, table


def test_figures_and_intervals_stand_as_on_the_page() -> None:
    made = table(
        "Errors", [{"title": "ours", "mape": 4.651, "low": 4.0, "high": 5.5}, {"title": "none", "mape": None}],
        [column("title", "predictor"), column("mape", "MAPE", "percent", low="low", high="high"),
         column("low", "from", "percent"), column("high", "to", "percent")],
        caption="Protocol unseen-pair",
    )  # fmt: skip
    text = to_latex(made)
    assert r"predictor & MAPE (\%) \\" in text
    assert r"ours & 4.65 (4.00 to 5.50) \\" in text
    assert r"\caption{Errors. Protocol unseen-pair.}" in text
    assert text.count("&") == 3, "the ends of the interval have no columns of their own"
    assert r"\toprule" in text


def test_names_are_printed_and_never_run() -> None:
    assert escape(r"a_b & 50% $x$ \input{/etc/passwd} #1 ~^<>") == (
        r"a\_b \& 50\% \$x\$ \textbackslash{}input\{/etc/passwd\} \#1 \textasciitilde{}\textasciicircum{}"
        r"\textless{}\textgreater{}"
    )
    assert "\u202e" not in escape("rtl\u202emark")


def test_a_comparison_carries_its_protocol() -> None:
    row = {"predictor": "stallscope", "title": "StallScope", "mape": 4.65, "mape_ci": [4.0, 5.5], "n": 690}
    text = comparison_latex(
        {
            "dataset": "my set",
            "protocol": "unseen-pair",
            "sentence": "pairs never seen together",
            "rows": [row],
            "n": 690,
            "runs": 115,
            "workloads": 16,
            "gpus": ["V100-32GB"],
            "mechanisms": ["CUDA MPS"],
            "simulated": True,
        }
    )
    assert "protocol unseen-pair" in text
    assert "simulated" in text
    assert r"\label{tab:my-set-unseen-pair}" in text
