"""What several formats use: profiles without stalls, samples over time, frames of co-runs.

Start with `tool_profile`.
"""
