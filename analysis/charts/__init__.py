"""Pure functions from frames to plotly figures; one template, one palette."""
