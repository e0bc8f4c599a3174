"""``python -m fairshare``."""

from fairshare.cli.main import main

if __name__ == "__main__":
    main()
