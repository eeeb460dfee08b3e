"""Which models do I have, and what are they good for?"""

import pandas as pd
import streamlit as st

from analysis.errors import StallScopeError
from analysis.predict.models import activemodel, models
from analysis.predict.models.manifest import Manifest
from analysis.report.card import model_card
from analysis.ui.shell import access, empty, filters, frame, navigation
from analysis.ui.shell.columns import configured
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database

QUESTION = "Which models do I have, and what are they good for?"

COLUMNS = configured(
    "active", "model/trained", "predictor", "dataset", "gpus", "mechanisms", "runs/coruns", "error/protocol",
    "median", "protocol", "simulated", "made",
)  # fmt: skip


def row(card: Manifest, active: str | None) -> dict:
    """Return a model as a row: what it is, and its error beside the median's under one protocol."""
    own = next((one for one in card.protocol_results if one["predictor"] == card.predictor and one["mape"]), None)
    median = [
        one["mape"]
        for one in card.protocol_results
        if own and one["protocol"] == own["protocol"] and one["predictor"] == "train-median"
    ]
    return {
        "active": card.model_id == active,
        "model": card.model_id,
        "predictor": card.title,
        "dataset": card.dataset,
        "gpus": ", ".join(card.gpus),
        "mechanisms": ", ".join(card.mechanisms),
        "runs": card.runs,
        "error": own["mape"] if own else None,
        "median": median[0] if median else None,
        "protocol": own["protocol"] if own else "not scored",
        "simulated": card.simulated,
        "made": card.created_at[:16].replace("T", " "),
    }


@access.editing
def keep(data: bytes) -> Manifest:
    return models.import_model(database(), data)


@access.editing
def activate(model_id: str) -> None:
    activemodel.activate(database(), model_id)


@access.editing
def delete(model_id: str) -> None:
    models.delete(database(), model_id)


def bring() -> None:
    """Take in a model file that was downloaded elsewhere, once everything about it has been checked."""
    with st.expander("Bring a model from elsewhere", icon=":material/upload_file:"):
        given = st.file_uploader("Model file", type=["stallscope"], key="model-file", disabled=not access.may_edit())
        if given is not None and access.button("Check and keep it", key="keep-model"):
            try:
                card = keep(given.getvalue())
            except StallScopeError as error:
                st.error(sentence(f"{error.what[:1].upper()}{error.what[1:]}. {error.cure}"), icon=":material/error:")
            else:
                st.success(f"Model {plain(card.model_id)} is kept.", icon=":material/check_circle:")


def one(card: Manifest, active: bool) -> None:
    """Show one model's card and what can be done with it."""
    with st.container(horizontal=True, vertical_alignment="center"):
        if access.button("Make it the active one", icon=":material/star:", disabled=active, key="activate"):
            activate(card.model_id)
            st.rerun()
        st.download_button(
            "Download the model",
            data=lambda: models.export(database(), card.model_id),
            file_name=f"{card.model_id}.stallscope",
            mime="application/octet-stream",
            icon=":material/download:",
            on_click="ignore",
            key="download-model",
        )
        st.download_button(
            "Download the card",
            data=lambda: model_card(card).encode(),
            file_name=f"{card.model_id}.md",
            mime="text/markdown",
            icon=":material/description:",
            on_click="ignore",
            key="download-card",
        )
        with st.popover("Delete", icon=":material/delete:"):
            st.markdown(f"Delete {plain(card.model_id)}? What it was trained on stays.")
            if access.button("Delete it", type="primary", key="delete-model"):
                delete(card.model_id)
                st.rerun()
    with st.container(border=True, key="model-card"):
        st.markdown(model_card(card, level=3))
    with st.container(horizontal=True):
        navigation.link("what-if", "Ask about a set of jobs", dataset=card.dataset, model=card.model_id)
        navigation.link("explain", "See why it says what it says", dataset=card.dataset, model=card.model_id)


def page() -> None:
    name = filters.dataset()
    known = [card for card in cached(models.list_models, database()) if card.dataset == name]
    frame.header(QUESTION, filters.chosen("dataset") if name else None, simulated=any(card.simulated for card in known))
    if name is None or not known:
        frame.answer("No model is trained on this data set yet." if name else "No model is trained yet.")
        if name is None:
            empty.state("There are no co-runs to learn from yet.", empty.CORUN)
        else:
            navigation.link("train", "Train one", dataset=name)
        bring()
        return
    active = activemodel.active(database(), name)
    rows = [row(card, active) for card in known]
    first = next(one for one in rows if one["active"])
    scored = (
        f"off by {first['error']:.2f} % under {first['protocol']}, the train median by {first['median']:.2f} %"
        if first["error"] and first["median"]
        else "not scored yet: compare predictors before you trust it"
    )
    count = frame.count(len(known), "model")
    frame.answer(f"**{count}** of {plain(name)}. {plain(first['model'])} answers: {sentence(scored)}.")
    frame.data(pd.DataFrame(rows), name="models", columns=COLUMNS, height="content")
    by_id = {card.model_id: card for card in known}
    chosen = filters.pick("Model", [str(one["model"]) for one in rows], key="model")
    card = by_id.get(str(chosen), known[0])
    one(card, card.model_id == active)
    bring()
    frame.basis(
        frame.count(card.runs, "run"), frame.count(card.rows, "member"), simulated=card.simulated,
        protocol=first["protocol"] if first["error"] else None,
    )  # fmt: skip


page()
