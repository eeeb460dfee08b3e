"""Why does this job wait?"""

from analysis.stalls.verdict import verdicts
from analysis.ui import empty, filters, frame, stalls
from analysis.ui.navigation import PROFILES
from analysis.ui.resources import cached, database

QUESTION = "Why does this job wait?"


def page() -> None:
    chosen = filters.chosen(*PROFILES)
    if filters.dataset() is None:
        frame.header(QUESTION)
        empty.state("There are no profiles yet.", empty.PROFILE)
        return
    table = cached(verdicts, database(), chosen, "workload")
    rules = stalls.rule_texts(chosen)
    only_rules = rules[~rules["workload"].isin(table["workload"])]
    simulated = bool(table["simulated"].any()) if len(table) else False
    frame.header(QUESTION, chosen, simulated=simulated)
    if table.empty:
        frame.answer("Nothing here holds stall reasons.")
        if len(only_rules):
            stalls.show_rules(only_rules)
        empty.state("No profile of this choice has stall metrics.", empty.PROFILE)
        return
    frame.answer(stalls.sentence(table))
    stalls.overview(chosen)
    stalls.job(chosen)
    if len(only_rules):
        stalls.show_rules(only_rules)
    if len(table) > 1:
        frame.subheading("All verdicts")
        stalls.verdict_table(table)
    frame.basis(
        frame.count(len(table), "profile"),
        frame.count(int(table["launches"].sum()), "launch", "launches"),
        simulated=simulated,
    )
    frame.caveats(stalls.caveats(table))


page()
