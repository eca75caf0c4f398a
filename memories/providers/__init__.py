"""Embedding providers: texts in, unit vectors out. The only callers of the network.

Without Django, so that the engine's own command line can use them too.
"""
