"""Tasks with right answers: scores outputs, and asks whether the score moved between two sets of them."""
