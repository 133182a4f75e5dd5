"""`python -m specbench`."""

from specbench.cli.main import main

main()
