"""Should this LLM deployment use speculative decoding: which method, which gamma, up to which batch size?"""

__version__ = "0.1.0"
