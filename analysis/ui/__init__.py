"""Components that the pages share; with app.py and pages/ the only place that knows Streamlit."""
