"""Runs side by side: what they have in common, what changed between them, and what that did."""
