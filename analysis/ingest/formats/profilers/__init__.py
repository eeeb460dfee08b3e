"""Other profilers: Nsight Systems, nvprof and PyTorch traces.

Start with `gpu_trace`; all of them end in `formats.shared.tool_profile`.
"""
