"""Which numbers should I not trust?"""

import streamlit as st

from analysis.interference.checks import RULES, run_checks
from analysis.store.queries import overview
from analysis.ui import empty, filters, frame
from analysis.ui.markdown import plain, sentence
from analysis.ui.resources import cached, database

MARKS = {
    "error": ":red[:material/error:]",
    "warning": ":orange[:material/warning:]",
    "info": ":blue[:material/info:]",
}


def page() -> None:
    name = filters.dataset()
    if name is None:
        frame.header("Which numbers should I not trust?")
        empty.state("There are no numbers yet.", empty.PROFILE, empty.CORUN)
        return
    based = cached(overview.basis, database(), name)
    frame.header("Which numbers should I not trust?", filters.chosen("dataset"), simulated=based["simulated"] > 0)
    findings = cached(run_checks, database(), name)
    if not findings:
        frame.answer(f"None that the {len(RULES)} checks know of: {plain(name)} passes all of them.")
    else:
        caught = sum(finding.count for finding in findings)
        frame.answer(
            f"**{frame.count(len(findings), 'finding')}** in {plain(name)}, {caught:,} rows in all. Workloads that a "
            "check flags are left out of training and scores unless you ask for them."
        )
    for number, finding in enumerate(findings):
        with st.container(border=True, key=f"finding-{number}"):
            title = plain(finding.rule.replace("-", " ").capitalize())
            st.markdown(f"{MARKS[finding.severity]} **{title}** · {plain(finding.where)}")
            st.markdown(sentence(finding.sentence))
            with st.expander(f"The {frame.count(finding.count, 'row')} behind it", type="compact"):
                frame.data(finding.rows, name=f"{finding.rule}-{number}")
    frame.basis(
        frame.count(len(RULES), "check"), frame.count(based["sources"], "source"), simulated=based["simulated"] > 0
    )


page()
