"""The command replay: python -m replay, and the script that pip installs."""

import os
import subprocess
import sys
from typing import NoReturn

from ._program import program


def main() -> NoReturn:
    """Replace this process with the program, with the same arguments."""
    command = [program(), *sys.argv[1:]]
    if os.name != "nt":
        os.execv(command[0], command)
    child = subprocess.Popen(command)
    while True:
        try:
            sys.exit(child.wait())
        except KeyboardInterrupt:  # the program receives the interrupt too, and cleans up
            continue


if __name__ == "__main__":
    main()
