"""Prompts to replay: the formats they come in, and what a file of them is like."""

from specbench.workloads.load import load_workload
from specbench.workloads.prompt import Prompt, Workload

__all__ = ["Prompt", "Workload", "load_workload"]
