"""Capacity planning: a model of what a step costs and yields, fitted to a few measured cells."""
