"""Which numbers should I not trust?"""

from analysis.interference.checks import RULES, run_checks
from analysis.store.queries import exclusions, sources
from analysis.ui.parts import checks
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.markdown import plain
from analysis.ui.shell.resources import cached, database


def page() -> None:
    name = filters.dataset()
    if name is None:
        frame.header("Which numbers should I not trust?")
        empty.state("There are no numbers yet.", empty.PROFILE, empty.CORUN)
        return
    based = cached(sources.basis, database(), name)
    frame.header(
        "Which numbers should I not trust?",
        filters.chosen("dataset"),
        simulated=based["simulated"] > 0,
        about="nothing",
    )
    findings = cached(run_checks, database(), name)
    decided = cached(exclusions.decisions, database(), name)
    if findings:
        caught = sum(finding.count for finding in findings)
        frame.answer(
            f"**{frame.count(len(findings), 'finding')}** in {plain(name)}, {frame.count(caught, 'row')} in all. "
            "Workloads with a doubtful baseline are left out of training and scores unless you ask for them; what else "
            "to leave out is yours to decide."
        )
    elif len(decided):
        frame.answer(f"None that is still counted: what the checks found in {plain(name)} is left out.")
    else:
        frame.answer(f"None that the {len(RULES)} checks know of: {plain(name)} passes all of them.")
    checks.decisions(decided)
    for finding in findings:
        checks.finding(finding, name)
    frame.basis(
        frame.count(len(RULES), "check"), frame.count(based["sources"], "source"), simulated=based["simulated"] > 0
    )


page()
