"""How is this StallScope set up?"""

import pandas as pd
import streamlit as st

from analysis.settings import get_settings
from analysis.store.queries import jobs as records
from analysis.ui.shell import frame, markdown, sample
from analysis.ui.shell.columns import configured
from analysis.ui.shell.resources import database


def page() -> None:
    settings = get_settings()
    frame.header("How is this StallScope set up?")
    size = settings.db.stat().st_size if settings.db.exists() else 0
    frame.answer(
        f"All data is in one file on this machine, {size / 2**20:,.1f} MiB: {markdown.plain(settings.db, 300)}"
    )
    st.caption("Settings are read from the environment when StallScope starts.")
    rows = [
        ("STALLSCOPE_DB", str(settings.db), "The database file"),
        ("STALLSCOPE_SAMPLE", settings.sample, "Whether a first start on an empty database loads the simulated sample"),
        ("STALLSCOPE_MEMORY_LIMIT", settings.memory_limit, "Most memory that the database may use"),
        ("STALLSCOPE_MAX_FILE_BYTES", f"{settings.max_file_bytes:,}", "Largest file that is accepted, in bytes"),
        ("STALLSCOPE_MAX_UNPACKED_BYTES", f"{settings.max_unpacked_bytes:,}", "Largest size after unpacking, in bytes"),
        ("STALLSCOPE_MAX_FILES", f"{settings.max_files:,}", "Most files of one upload"),
        ("STALLSCOPE_READ_ONLY", "yes" if settings.read_only else "no", "Whether nothing can be changed"),
        ("STALLSCOPE_LIMIT", f"{settings.limit:g}", "Largest slowdown that a job may pay, unless you say otherwise"),
        ("STALLSCOPE_SHARE_FROM", f"{settings.share_from:g}", "Probability of the limit, %, from which on: share"),
        ("STALLSCOPE_DONT_UP_TO", f"{settings.dont_up_to:g}", "Probability of the limit, %, up to which: don't share"),
        ("STALLSCOPE_MAX_UNPACK_RATIO", f"{settings.max_unpack_ratio:,}", "Largest ratio of unpacked to packed size"),
    ]
    st.dataframe(
        pd.DataFrame(rows, columns=["Variable", "Value", "What it is"]),
        hide_index=True,
        placeholder="–",
        alt="Settings",
        height="content",
    )
    st.subheader("Simulated sample", anchor=False)
    sample.manage()
    st.subheader("Recent work", anchor=False)
    table = records.recent(database())
    if table.empty:
        st.caption("Nothing yet: loads, evaluations and trainings are listed here.")
        return
    st.dataframe(
        table,
        hide_index=True,
        alt="Recent work",
        height="content",
        placeholder="–",
        column_config={
            **configured("job_id", "kind/task", "state"),
            "fraction": st.column_config.ProgressColumn("Done", format="percent", min_value=0, max_value=1),
            **configured("message", "created_at/started", "finished_at"),
        },
    )


page()
