"""Every page of the application, in one list: where it stands, what it is called, which filters concern it.

To add a page, write its script one level below ``pages/`` and add one `PageSpec` here.
"""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

#: Filters by the kind of data a page shows.
PROFILES = ("dataset", "gpu", "family", "workload", "phase", "source")
CORUNS = ("dataset", "limit", "gpu", "mechanism", "family", "workload", "phase", "batch", "precision")


@dataclass(frozen=True)
class PageSpec:
    """One page.

    Attributes
    ----------
    name : str
        Address (``/stalls``) and the name by which pages link to it.
    section, title : str
        Group and entry in the navigation.
    path : str
        Script, from the project's top level.
    icon : str
        Material symbol.
    filters : tuple of str
        Filters that the sidebar offers on this page, see `analysis.ui.shell.filters`.
    """

    name: str
    section: str
    title: str
    path: str
    icon: str
    filters: tuple[str, ...] = ()


PAGES: tuple[PageSpec, ...] = (
    PageSpec("overview", "", "Overview", "pages/home/overview.py", "space_dashboard", ("dataset", "limit")),
    PageSpec("upload", "Data", "Upload", "pages/data/upload.py", "upload_file"),
    PageSpec("library", "Data", "Library", "pages/data/library.py", "inventory_2", ("dataset",)),
    PageSpec("catalogue", "Data", "Catalogue", "pages/data/catalogue.py", "menu_book"),
    PageSpec("checks", "Data", "Checks", "pages/data/checks.py", "rule", ("dataset",)),
    PageSpec("stalls", "Explore", "Stalls", "pages/explore/stalls.py", "hourglass_top", PROFILES),
    PageSpec("kernels", "Explore", "Kernels", "pages/explore/kernels.py", "view_list", PROFILES),
    PageSpec("interference", "Explore", "Interference", "pages/explore/interference.py", "grid_on", CORUNS),
    PageSpec("partners", "Explore", "Partners", "pages/explore/partners.py", "group", CORUNS),
    PageSpec("architectures", "Explore", "Architectures", "pages/explore/architectures.py", "compare_arrows", CORUNS),
    PageSpec("mechanisms", "Explore", "Mechanisms", "pages/explore/mechanisms.py", "call_split", ("dataset", "gpu")),
    PageSpec("train", "Predict", "Train", "pages/predict/train.py", "model_training", ("dataset",)),
    PageSpec("compare", "Predict", "Compare", "pages/predict/compare.py", "leaderboard", ("dataset", "limit")),
    PageSpec("what-if", "Predict", "What-if", "pages/predict/what_if.py", "call_split", ("dataset", "limit")),
    PageSpec("explain", "Predict", "Explain", "pages/predict/explain.py", "waterfall_chart", ("dataset", "limit")),
    PageSpec("models", "Predict", "Models", "pages/predict/models.py", "deployed_code", ("dataset",)),
    PageSpec(
        "measure-next", "Predict", "Measure next", "pages/predict/measure_next.py", "straighten", ("dataset", "limit")
    ),
    PageSpec("placement", "Plan", "Placement", "pages/plan/placement.py", "dashboard_customize", ("dataset", "limit")),
    PageSpec(
        "cluster-replay",
        "Plan",
        "Cluster replay",
        "pages/plan/cluster_replay.py",
        "timeline",
        ("dataset", "limit", "gpu", "mechanism"),
    ),
    PageSpec("gpu", "Live", "GPU", "pages/live/gpu.py", "monitor_heart"),
    PageSpec(
        "report", "Report", "Report", "pages/report/report.py", "description", ("dataset", "limit", "gpu", "mechanism")
    ),
    PageSpec("guide", "Help", "Guide", "pages/help/guide.py", "school"),
    PageSpec("glossary", "Help", "Glossary", "pages/help/glossary.py", "dictionary"),
    PageSpec("settings", "Help", "Settings", "pages/help/settings.py", "settings"),
    PageSpec("about", "Help", "About", "pages/help/about.py", "info"),
)

_BY_NAME = {page.name: page for page in PAGES}


def navigation() -> tuple[st.Page, PageSpec]:
    """Register all pages and return the one to run, with its entry in `PAGES`."""
    sections: dict[str, list[st.Page]] = {}
    for spec in PAGES:
        page = st.Page(
            spec.path,
            title=spec.title,
            icon=f":material/{spec.icon}:",
            url_path=spec.name,
            default=spec is PAGES[0],
        )
        sections.setdefault(spec.section, []).append(page)
    current = st.navigation(sections, position="top")
    by_title = {(spec.title): spec for spec in PAGES}
    return current, by_title[current.title]


def path(name: str) -> str:
    """Return the script of a page, for `streamlit.page_link` and `streamlit.switch_page`."""
    return _BY_NAME[name].path


def link(name: str, label: str | None = None, **query: str) -> None:
    """Draw a link to a page, with its filters set where they are given."""
    spec = _BY_NAME[name]
    st.page_link(spec.path, label=label or spec.title, icon=f":material/{spec.icon}:", query_params=query or None)
