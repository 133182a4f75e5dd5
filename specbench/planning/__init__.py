"""Capacity planning: the hardware, and what follows from its figures."""
