"""`specbench verify`: starts an engine with and without speculation and asks whether its outputs are the same."""
