"""How many GPUs for a traffic under an SLO, with and without speculation; what that costs, and how sure it is."""
