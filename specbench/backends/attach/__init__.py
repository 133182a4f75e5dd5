"""Servers that specbench did not start: which engine it is, what it tells, and how to count around a measurement."""
