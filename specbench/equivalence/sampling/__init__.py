"""Is a sampled distribution the target's own? Tests on token counts, with their power; no engine, no torch."""
