"""Accelerators by name: what they have, and what an hour of them was offered at."""
