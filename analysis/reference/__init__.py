"""Reads the reference tables that ship with StallScope: GPUs, stall reasons, formulas."""
