"""Page configuration, navigation and global filters; nothing else."""

import streamlit as st

from analysis.settings import asset
from analysis.ui.shell import access, filters, navigation, sample, style
from analysis.ui.shell.errors import boundary
from analysis.ui.shell.resources import database, theme

st.set_page_config(page_title="StallScope", page_icon=str(asset("data", "brand", "mark.svg")), layout="wide")
logo = "logo-dark.svg" if theme() == "dark" else "logo.svg"
st.logo(str(asset("data", "brand", logo)), size="large")

style.apply(theme())

page, spec = navigation.navigation()
with boundary(spec.name):
    access.gate()
    database()
    sample.first_start()
    filters.sidebar(spec.filters)
    access.badge()
    page.run()
