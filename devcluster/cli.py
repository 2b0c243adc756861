"""The command line: ``python -m devcluster up|down|status|env|build``."""

import argparse
import shlex
import sys
from collections.abc import Sequence

from devcluster import golang, images, paths, programs, tools, trainenv
from devcluster import instance as instances
from devcluster.cluster import Cluster
from devcluster.errors import DevClusterError

_EXTRAS = {program.name: program for program in programs.EXTRAS}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    options = _parser().parse_args(argv)
    try:
        return int(_COMMANDS[options.command](options))
    except DevClusterError as error:
        print(f"devcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("devcluster: interrupted; `python -m devcluster down` removes what was begun", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m devcluster", description="A real Kubernetes on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start a cluster and print its environment")
    up.add_argument(
        "--control-plane-only", action="store_true", help="no node, no pods; ready in seconds, needs no root"
    )
    up.add_argument("--s3", action="store_true", help="an S3 server beside a control plane too")
    up.add_argument("--no-kuberay", action="store_true", help="a full cluster without KubeRay")
    up.add_argument("--with", dest="extras", action="append", default=[], choices=_EXTRAS, help="install it too")
    down = commands.add_parser("down", help="stop a cluster and remove every trace of it")
    status = commands.add_parser("status", help="say what runs")
    env = commands.add_parser("env", help='print variables for a shell: eval "$(python -m devcluster env)"')
    for one in (up, down, env):
        one.add_argument("--name", default="dev", help="which cluster (default: dev)")
    status.add_argument("--name", help="one cluster (default: all)")
    build = commands.add_parser("build", help="build and fetch everything into the cache, start nothing")
    build.add_argument("--control-plane-only", action="store_true", help="only what a control plane needs")
    build.add_argument("--with", dest="extras", action="append", default=[], choices=_EXTRAS, help="it too")
    build.add_argument("--train", action="store_true", help="the training environment too (6 GB)")
    return parser


def _up(options: argparse.Namespace) -> int:
    cluster = Cluster(
        options.name,
        control_plane_only=options.control_plane_only,
        with_kuberay=not options.no_kuberay,
        with_kueue="kueue" in options.extras,
        with_argocd="argocd" in options.extras,
        s3=True if options.s3 else None,
    )
    cluster.up()
    _print_env(cluster)
    return 0


def _down(options: argparse.Namespace) -> int:
    if not Cluster(options.name).down():
        print(f"devcluster: '{options.name}' is not there", file=sys.stderr)
    return 0


def _status(options: argparse.Namespace) -> int:
    names = (
        [options.name]
        if options.name
        else sorted(path.parent.name for path in paths.state_root().glob("*/instance.json"))
    )
    if not names:
        print("no clusters")
    dead = False
    for name in names:
        found = instances.load(name)
        cluster = Cluster(name)
        if not found:
            print(f"{name}: not there")
            dead = True
            continue
        kind = "control plane" if found.control_plane_only else "full"
        print(f"{name}: {'up' if cluster.alive else 'dead'} ({kind}), {found.server}, state in {found.state}")
        for program in cluster.processes.names():
            handle = cluster.processes.handle(program)
            print(f"  {program}: {'runs' if handle.alive else 'ended'} (process {handle.pid})")
            dead = dead or not handle.alive
    return 1 if dead else 0


def _env(options: argparse.Namespace) -> int:
    cluster = Cluster(options.name)
    if not cluster.alive:
        raise DevClusterError(f"'{options.name}' is not up: run `python -m devcluster up --name {options.name}`.")
    _print_env(cluster)
    return 0


def _print_env(cluster: Cluster) -> None:
    for key, value in cluster.env().items():
        print(f"export {key}={shlex.quote(value)}")


def _build(options: argparse.Namespace) -> int:
    golang.ensure(programs.KUBERNETES)
    tools.kubectl()
    if not options.control_plane_only:
        for program in programs.ALL:
            golang.ensure(program)
        tools.helm()
        images.base()
    for name in options.extras:
        golang.ensure(_EXTRAS[name])
    if options.train:
        print(trainenv.ensure().path)
    return 0


_COMMANDS = {"up": _up, "down": _down, "status": _status, "env": _env, "build": _build}
