"""`python planted_server.py BUG …`: the reference decoder's server with a planted bug."""

from __future__ import annotations

import sys

from planted import BUGS

from specbench.decoder import server


class Setter:
    def setattr(self, target: object, name: str, value: object) -> None:
        setattr(target, name, value)


if __name__ == "__main__":
    BUGS[sys.argv.pop(1)](Setter())
    server.main()
