"""Signoff decides, with evidence, whether a self-hosted LLM service may go live."""

__version__ = "0.1.0"
