"""Published figures about speculative decoding, checked by arithmetic."""
