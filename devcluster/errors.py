"""The one exception of this package: its text tells the reader what to do."""


class DevClusterError(Exception):
    """Something that a person has to act on; the message says what and how."""
