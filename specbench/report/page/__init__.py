"""The HTML report: what its charts draw, its templates and its scripts."""
