"""Page configuration, navigation and global filters; nothing else."""

import streamlit as st

st.set_page_config(page_title="StallScope", layout="wide")
