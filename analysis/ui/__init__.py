"""Components that pages share; the only package that knows Streamlit."""
