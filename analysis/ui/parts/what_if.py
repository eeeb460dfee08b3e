"""The parts of the What-if page: what each pays, other settings, measured neighbours, what would help, own profiles."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import pandas as pd
import streamlit as st

from analysis.charts.explanations import cause_bars
from analysis.charts.theme import alt_text
from analysis.errors import StallScopeError
from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.ncu.advice import COMMAND_FEW
from analysis.ingest.preview import Preview
from analysis.ingest.worker import reader_for
from analysis.interference.metrics import antt, fairness, jain, stp, together_per_100
from analysis.numbers import significant, slowdown
from analysis.predict.advise import changes
from analysis.predict.advise.neighbours import Likeness, nearest_runs
from analysis.predict.explain import whitebox_causes
from analysis.predict.models import models, unanswered, untrained
from analysis.predict.models.jobs import JobPrediction
from analysis.predict.models.manifest import Manifest
from analysis.reference import gpus, origin
from analysis.ui.parts import upload
from analysis.ui.parts.question import MOST_JOBS, OWN, Question
from analysis.ui.shell import access, frame, navigation
from analysis.ui.shell.columns import configured
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database, jobs, theme
from analysis.ui.shell.spool import Spooled, spool

_RUNS: dict[str, Any] = configured("jobs", "slowdowns", "worst", "stp", "runs", "difference/distance", "simulated")
_CHANGES: dict[str, Any] = configured("kind/change", "what", "worst/then", "stp/then", "origin", "memory")
_CAUSES: dict[str, Any] = configured("workload/job", "by", "resource", "value/used", "shap", "factor")
#: From this difference on a measured set has a job of another family.
_UNLIKE = 2.0
#: A text of `predict.missing`: what, the command, and when or what else.
_COMMAND = re.compile(
    r"(?P<what>.+?): (?P<command>(?:ncu|nvidia-smi|stallscope) .+?)(?P<rest>, (?:while|or|then) [^,]+)?", re.DOTALL
)
_KIND, _SPOOLED = "profile", "whatif-spooled"


def members(found: list[JobPrediction]) -> None:
    """Show what each job pays, and what they do together."""
    # What belongs together stands in one frame, and the frames are all as high as the highest.
    cards = [column.container(border=True, height="stretch", gap="xsmall") for column in st.columns(len(found) + 1)]
    for card, one in zip(cards, found, strict=False):
        interval = f"{significant(one.low)} to {significant(one.high)}" if one.low and one.high else "no interval"
        known = "simulated" if one.simulated else "measured"
        if one.measured is not None:  # the measurement is the figure; what was predicted stands beside it, small
            card.metric(plain(one.workload, 40), f"{significant(one.measured)} x")
            gap = 100 * (one.slowdown / one.measured - 1)
            predicted = f" · predicted {slowdown(one.slowdown)} ({gap:+.0f} %)" if isfinite(one.slowdown) else ""
            card.caption(f"{known}{predicted}")
            continue
        card.metric(plain(one.workload, 40), f"{significant(one.slowdown)} x" if isfinite(one.slowdown) else "–")
        if one.rests_on == "composed":
            card.caption("composed of its measured pairs, no interval")
            continue
        if one.rests_on == "effects":
            card.caption("from what each job suffers and does beside others, no interval")
            continue
        beyond = " · :orange[:material/warning:] beyond what the model has seen" if one.extrapolating else ""
        card.caption(f"{interval}{beyond}")
    every = [one.measured if one.measured is not None else one.slowdown for one in found]
    if not all(isfinite(value) for value in every):
        cards[-1].metric("Together, while all run", "–")
        cards[-1].caption("nothing is known of what they do together")
        return
    total = stp(every)
    impossible = any(one.memory == "does_not_fit" for one in found)
    cards[-1].metric(
        "Together, while all run",
        "–" if impossible else f"{float(together_per_100(total)):.0f} min",
        help="100 min divided by STP: the time in which jobs that all keep running do the work of 100 min one after "
        "the other. Once one of them ends, the others run on faster. Jobs that do not fit have no such time.",
    )  # fmt: skip
    minutes = "no time, they do not fit" if impossible else "for 100 min one after the other"
    cards[-1].caption(
        f"{minutes} · STP {significant(total)} · ANTT {significant(antt(every))} x · fairness "
        f"{significant(fairness(every))} · Jain's index {significant(jain(every))} · worst S "
        f"{significant(max(every))} x"
    )


def to_do(text: str) -> None:
    """Show what would make an answer better, its command as code that can be copied."""
    parts = _COMMAND.fullmatch(text)
    if parts is None:
        st.markdown(f"- {sentence(text, 600)}")
        return
    st.markdown(f"- {sentence(parts['what'], 600)}{sentence(parts['rest'] or '', 300)}:")
    st.code(parts["command"], language="sh", wrap_lines=True)


def why(asked: Question) -> None:
    """Show what each job pays to whom for which resource, where the model works that out itself."""
    if asked.model.predictor != untrained.NAME:
        return
    from analysis.predict.explain.explain import explain

    found = cached(explain, database(), asked.model.model_id, asked.gpu, asked.jobs, asked.mechanism, caps=asked.capped)
    table = whitebox_causes.table(found)
    if not set(table["resource"]) <= whitebox_causes.PARTS:  # the network has no figure of its own for this set
        return
    frame.subheading("Who takes what from whom")
    for text in dict.fromkeys(one.sentence for one in found):
        st.markdown(f"- {sentence(text, 800)}")
    figure = cause_bars(table, theme=theme())
    frame.chart(figure, name="causes", alt=alt_text(figure), table=table, columns=_CAUSES)


def other_settings(asked: Question) -> None:
    """Offer the other batch sizes and precisions of each job that the library has."""
    like = cached(Likeness.of, database(), asked.model.dataset)
    known = [name for name in like.table.index if name in set(asked.model.workloads)]
    slots = []
    for number, job in enumerate(asked.jobs, start=1):
        variants = [str(name) for name in known if name != job and like.of_one_model(job, str(name))]
        if variants:
            slots.append((number, job, sorted(variants, key=lambda name: like.apart(job, name))[:8]))
    if not slots:
        return
    with st.expander("Another batch size or precision", icon=":material/tune:"):
        for number, job, variants in slots:
            st.caption(f"Job {number}, {plain(job, 60)}:")
            with st.container(horizontal=True):
                for name in variants:
                    st.button(
                        plain(_change(like, job, name), 60), key=f"variant-{number}-{name}", on_click=_set,
                        args=(number, name), type="tertiary",
                    )  # fmt: skip


def _change(like: Likeness, job: str, name: str) -> str:
    said = like.difference(job, name)
    return said.removeprefix(f"{job} with ").removesuffix(f" ({name})") if said.startswith(job) else name


def _set(number: int, name: str) -> None:
    st.session_state[f"job{number}"] = name


def nearest(asked: Question) -> None:
    """Show the measured sets most like the one asked about."""
    found = cached(nearest_runs, database(), asked.model.dataset, _here(asked), asked.jobs, asked.mechanism)
    frame.subheading("The nearest measured runs")
    if found.empty:
        st.caption(f"Nothing was measured on {plain(asked.gpu)} under {plain(asked.mechanism)}.")
        return
    first = found.iloc[0]
    word = "simulated" if first["simulated"] else "measured"
    if first["difference"] == 0:
        text = f"This very set was {word}: {plain(first['slowdowns'])} ({plain(first['jobs'], 200)})."
    elif first["difference"] >= _UNLIKE:
        text = f"Nothing like it was {word}. Least unlike: {plain(first['jobs'], 200)}, {plain(first['slowdowns'])}."
    else:
        text = f"Nearest: {plain(first['jobs'], 200)}, {word}: {plain(first['slowdowns'])}."
    st.markdown(text)
    shown = found if found["simulated"].any() else found.drop(columns="simulated")
    frame.data(shown, name="nearest-runs", columns=_RUNS)


def what_would_help(asked: Question, found: list[JobPrediction]) -> None:
    """Answer what would bring every job within the user's limit."""
    frame.subheading("What would keep every job within the limit?")
    limit = found[0].limit
    if asked.model.predictor == unanswered.NAME:
        st.caption("A trained model, or further measurements, could tell.")
        return
    worst = max(one.measured if one.measured is not None else one.slowdown for one in found)
    if asked.caps:
        st.caption("Asked about clients without caps: with caps nothing but a measurement could answer.")
    if worst <= limit:
        st.markdown(f"They keep it already: the worst pays {slowdown(worst)}.")
        return
    better = cached(
        changes.smallest_changes, database(), asked.model.model_id, asked.gpu, asked.jobs, asked.mechanism, limit
    )
    st.markdown(sentence(changes.sentence(better, limit), 400))
    if better.within:
        table = pd.DataFrame([one.to_json() for one in better.within])
        frame.data(table[list(_CHANGES)], name=f"changes-within-{limit:g}", columns=_CHANGES)


def bring_a_profile() -> None:
    """Take a profile of a job, alone, on the spot; it becomes one of the jobs to choose."""
    with st.expander("Bring a profile of your own", icon=":material/upload_file:"):
        st.caption("A profile of the job alone. It goes to the data set own. Made, for example, with:")
        st.code(COMMAND_FEW, language="bash", wrap_lines=True)
        if not access.may_edit():
            st.info(access.why_not(), icon=":material/lock:")
            return
        given = st.file_uploader("Profile", type=["csv", "txt", "gz"], key="whatif-profile", max_upload_size=200)
        if given is None:
            return
        # The page runs again with every click; the file is written and looked at once.
        if st.session_state.get(_SPOOLED, ("",))[0] != given.file_id:
            written = spool([given])[0]
            with reader_for([written.path], spool=database().spool) as files:
                st.session_state[_SPOOLED] = (given.file_id, written, files.preview(written.path, written.name, []))
        file: Spooled = st.session_state[_SPOOLED][1]
        if not file.path.exists():
            st.caption("It is loaded.")
            return
        seen: Preview = st.session_state[_SPOOLED][2]
        if seen.error is not None:
            st.error(sentence(seen.error), icon=":material/error:")
            return
        left, right = st.columns(2)
        name = left.text_input("Its name", value=seen.workload or "", key="whatif-profile-name")
        choices = list(dict.fromkeys([*seen.gpus, *gpus.load().index]))
        first = choices.index(seen.gpu) if seen.gpu in choices else 0
        place = right.selectbox("Measured on", choices, index=first, key="whatif-profile-gpu")
        if st.button("Load it", icon=":material/check:", key="whatif-profile-load"):
            _load(file, name.strip() or None, str(place))


@access.editing
def _load(file: Spooled, name: str | None, gpu: str) -> None:
    hints = Hints(workload=name, workload_from="by you", gpu=gpu, dataset=OWN)
    opened = database()
    job = jobs().submit(
        _KIND, {"file": file.name}, lambda progress: upload.load_all(opened, [(file, hints)], progress), lane="load"
    )
    with st.spinner("Reading the profile"):
        status = jobs().wait(job, 300)
    _loaded(status.result or {}, status.message)


def _loaded(result: Mapping[str, Any], message: str) -> None:
    reports = result.get("reports") or []
    refused = [one["error"] for one in reports if one.get("error")]
    if not reports or refused:
        st.error(sentence(str(refused[0] if refused else message)), icon=":material/error:")
        return
    st.success("It is loaded: choose it above as one of the jobs.", icon=":material/check_circle:")
    st.button("Show it in the list", key="whatif-profile-again")


def _here(asked: Question) -> str:
    return (gpus.resolve(asked.gpu, asked.model.gpus) or [asked.gpu])[0]


def onward(asked: Question) -> None:
    """Link to the reasons and to a report about this very set."""
    with st.container(horizontal=True):
        navigation.link("explain", "Why this number?", **asked.address())
        navigation.link("report", "Put it into a report", kind="prediction", **asked.address())
        if (count := len(asked.jobs)) < MOST_JOBS:
            st.button(
                "Add a job", icon=":material/add:", key="add-a-job", on_click=_more, args=(count + 1,), type="tertiary"
            )


def _more(count: int) -> None:
    st.session_state["jobs"] = str(count)


#: Scenarios side by side, the one in the form among them.
MOST = 4
_NAME = "scenarios"
_LETTERS = "ABCD"
_COLUMNS: dict[str, Any] = configured(
    "scenario", "jobs", "gpu", "mechanism", "threads", "memory", "verdict", "slowdowns", "worst", "together", "stp",
    "fairness", "extrapolating", "evidence", scenario={"pinned": True},
)  # fmt: skip


def encode(asked: Question) -> str:
    """Write a question as one value of the address."""
    return json.dumps(
        [asked.model.model_id, asked.gpu, asked.mechanism, list(asked.jobs), list(asked.caps)], separators=(",", ":")
    )


def decode(text: str, known: Sequence[Manifest]) -> Question | None:
    """Read a value of the address; None where it is damaged or its model is gone."""
    try:
        model_id, gpu, mechanism, jobs, caps = json.loads(text)
        card = next(one for one in known if one.model_id == model_id)
        return Question(card, str(gpu), str(mechanism), tuple(map(str, jobs)), tuple(map(float, caps)))
    except (ValueError, TypeError, StopIteration):
        return None


def kept() -> list[str]:
    """Return the scenarios that were put aside: those of this session, or of the address it was opened with."""
    if _NAME not in st.session_state:
        st.session_state[_NAME] = st.query_params.get_all(_NAME)[: MOST - 1]
    found: list[str] = st.session_state[_NAME]
    if found:
        st.query_params[_NAME] = found
    elif _NAME in st.query_params:
        del st.query_params[_NAME]
    return found


def side_by_side(asked: Question, found: list[JobPrediction], known: Sequence[Manifest]) -> None:
    """Offer to put the question aside, and compare it with those that were."""
    aside, here = kept(), encode(asked)
    with st.container(horizontal=True, vertical_alignment="center"):
        full = len(aside) >= MOST - 1
        if st.button(
            "Keep this to compare", icon=":material/add_column_right:", key="keep-scenario",
            disabled=here in aside or full,
            help="Three are kept at most; change the question above to compare." if full else None,
        ):  # fmt: skip
            st.session_state[_NAME] = [*aside, here]
            st.rerun()
        if aside and st.button("Forget the kept ones", icon=":material/close:", key="forget", type="tertiary"):
            st.session_state[_NAME] = []
            st.rerun()
    if not aside:
        return
    rows = [_row("this one", asked, found)]
    for number, text in enumerate(one for one in aside if one != here):
        question = decode(text, known)
        if question is None:
            st.caption("One of the kept scenarios asks a model that is no longer here; it is left out.")
            continue
        try:
            answer = cached(
                models.predict, database(), question.model.model_id, question.gpu, question.jobs, question.mechanism,
                caps=question.capped, limit=found[0].limit,
            )  # fmt: skip
        except StallScopeError as error:
            st.caption(f"Kept scenario {_LETTERS[number]} can't be answered: {sentence(error.sentence)}")
            continue
        rows.append(_row(_LETTERS[number], question, answer))
    table = pd.DataFrame(rows)
    frame.subheading("Side by side")
    _said(table)
    # Rows high enough for a line a job: long names run on into the next line instead of being cut.
    lines = int(table["jobs"].str.count(r" \+ ").max()) + 1
    frame.data(table, name="scenarios", columns=_COLUMNS, height="content", row_height=14 + 21 * lines)
    st.caption("The address of this page holds all of them: whoever opens it sees the same on the same data.")


def _row(name: str, asked: Question, found: list[JobPrediction]) -> dict[str, Any]:
    every = [one.measured if one.measured is not None else one.slowdown for one in found]
    first = found[0]
    return {
        "scenario": name,
        "jobs": " + ".join(asked.jobs),
        "gpu": asked.gpu,
        "mechanism": asked.mechanism,
        "threads": ", ".join(f"{cap:g}" for cap in asked.caps) or None,
        "memory": first.memory.replace("_", " "),
        "verdict": first.verdict,
        "slowdowns": "; ".join(
            f"{one.slowdown:.2f}" + (f" ({one.low:.2f} to {one.high:.2f})" if one.low and one.high else "")
            for one in found
        ),
        "worst": max(every),
        "together": None if first.memory == "does_not_fit" else float(together_per_100(stp(every))),
        "stp": stp(every),
        "fairness": fairness(every),
        "extrapolating": any(one.extrapolating for one in found),
        "evidence": origin.evidence(first.evidence, simulated=first.simulated),
    }


def _said(table: pd.DataFrame) -> None:
    possible = table[table["memory"] != "does not fit"]
    if len(table) < 2 or possible.empty:
        return
    best = possible.sort_values("together", kind="stable").iloc[0]
    mild = possible.sort_values("worst", kind="stable").iloc[0]
    pays = significant(float(mild["worst"]))
    text = (
        f"Shortest together: **{plain(best['scenario'])}**, {best['together']:.0f} min for what takes 100 one after "
        f"the other. Mildest: **{plain(mild['scenario'])}**, where the worst pays {pays} x."
    )
    st.markdown(text)
