"""The offset profile: the greedy acceptance of every gamma, from one pass over what the target has answered."""
