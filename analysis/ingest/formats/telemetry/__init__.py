"""Samples of GPUs over time: nvidia-smi, DCGM, Prometheus, Grafana and Slurm accounts.

Start with `smi_log`; all of them collect into `formats.shared.samples`.
"""
