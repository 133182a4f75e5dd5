"""The models' layers. Imports without torch, for those that only ask what there is."""

QUANTIZATIONS = ("int8", "int4")
"""How a target's weights may be kept (`quantized.py`)."""
