"""Errors as sentences: the command line prints the message alone and exits with `exit_code`."""


class SpecbenchError(Exception):
    """Something that the person at the keyboard can mend; the message names the place and the way out."""

    exit_code = 1


class UnsupportedSpeculation(SpecbenchError):
    """A backend cannot run this speculation; the message says why and names the nearest thing that works."""
