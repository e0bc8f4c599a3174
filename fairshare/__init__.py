"""fairshare (architecture page: written with the package)."""

__version__ = "0.1.0"
