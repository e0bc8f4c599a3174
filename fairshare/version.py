"""The version, on its own: the bottom layer, so that every package may name it."""

__version__ = "0.1.0"
