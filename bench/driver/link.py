"""A network link of a known rate between this machine and an S3 server, as it has one to the cloud's."""

import os
import subprocess

GBITS = 1
"""What a small GPU instance has as its lasting rate."""
HERE, THERE = "198.18.111.1", "198.18.111.2"
"""Of the range that is set aside for benchmarks."""


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)


class Link:
    """A network namespace of its own, reached through a veth pair with a token bucket at both ends. Needs root.

    `address` is where a server inside can be reached, `inside` the words that start a program there.
    """

    address = THERE

    def __init__(self) -> None:
        self.name = f"tsbench-{os.getpid()}"
        here, there = f"tsb{os.getpid()}a", f"tsb{os.getpid()}b"
        self.inside = ["ip", "netns", "exec", self.name]
        _run("ip", "netns", "add", self.name)
        try:
            _run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", self.name)
            for words, device, address in (([], here, HERE), (self.inside, there, THERE)):
                _run(*words, "ip", "address", "add", f"{address}/30", "dev", device)
                _run(*words, "ip", "link", "set", device, "up")
                bucket = ["rate", f"{GBITS}gbit", "burst", "256kb", "latency", "50ms"]
                _run(*words, "tc", "qdisc", "add", "dev", device, "root", "tbf", *bucket)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """The pair goes with its namespace."""
        _run("ip", "netns", "delete", self.name)
