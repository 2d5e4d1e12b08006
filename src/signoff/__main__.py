"""`python -m signoff`."""

from signoff.cli import main

if __name__ == "__main__":
    main()
