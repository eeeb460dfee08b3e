"""Nsight Compute in every form: long, raw page, summary, and binary reports.

Start with `profile`, which puts a file together; `stall_metrics` says which row counts for which reason.
"""
