"""Many runs at once: a folder of them as tables to query, and trends over them."""
