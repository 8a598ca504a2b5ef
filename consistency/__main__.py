"""``python -m consistency`` is the ``consistency`` command."""

from .cli.main import main

if __name__ == "__main__":
    main()
