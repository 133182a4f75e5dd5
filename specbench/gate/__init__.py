"""The gate: did a change make speculation slower, or the outputs wrong? Yes, no, or too uncertain to say."""
