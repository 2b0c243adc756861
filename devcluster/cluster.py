"""The cluster as an object: up, down, and what a test does to it in between."""

import platform
import secrets
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from devcluster import (
    argocd,
    cleanup,
    controlplane,
    images,
    kuberay,
    kueue,
    network,
    node,
    paths,
    s3,
    system,
    tools,
    trainenv,
)
from devcluster import (
    instance as instances,
)
from devcluster.errors import DevClusterError
from devcluster.golang import need_disk
from devcluster.instance import Instance
from devcluster.locks import locked
from devcluster.procs import Processes
from devcluster.report import say, step
from devcluster.shell import run
from devcluster.trainenv import TrainEnv
from devcluster.waiting import wait_for

BUCKET = "trainsweep"


class Cluster:
    """One cluster by name; as a context manager it is up inside the block.

    A cluster that was up before the block is left up after it: only what this object started, it stops.

    Args:
        name: at most 20 lower-case letters, digits and '-'; two names never share anything but the cache.
        control_plane_only: etcd and the control plane, without node, pods and S3; needs no root.
        with_kuberay: install KubeRay; else call :meth:`install_kuberay` when the test wants it.
        with_kueue: install Kueue too.
        with_argocd: run Argo CD beside it too.
        s3: start the S3 server; None means as the mode has it (full cluster: yes).
        keep: leave the cluster up at the end of the block.

    Example:
        >>> with Cluster(name="it", control_plane_only=True) as c:
        ...     print(c.kubectl("get", "namespaces"))
    """

    def __init__(
        self,
        name: str = "dev",
        *,
        control_plane_only: bool = False,
        with_kuberay: bool = True,
        with_kueue: bool = False,
        with_argocd: bool = False,
        s3: bool | None = None,
        keep: bool = False,
    ) -> None:
        self.name = name
        self.state_dir = paths.state_dir(name)
        self.processes = Processes(self.state_dir)
        self._control_plane_only = control_plane_only
        self._with_kuberay = with_kuberay and not control_plane_only
        self._with_kueue = with_kueue and not control_plane_only
        self._with_argocd = with_argocd
        self._with_s3 = (not control_plane_only) if s3 is None else s3
        self._keep = keep
        self._started_here = False

    # -- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            self._started_here = self.up()
        except BaseException:
            if not self._keep:
                self.down(only_dead=not self._began)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started_here and not self._keep:
            self.down()

    _began = False

    def up(self) -> bool:
        """Bring the cluster up; return True when this call started it, False when it was up already.

        Raises:
            DevClusterError: something is missing on this machine, taken, or did not become ready.
        """
        if platform.system() != "Linux":
            raise DevClusterError(
                "this needs Linux. On another system use a cluster of your own: export its KUBECONFIG."
            )
        with locked(paths.state_root() / f"{self.name}.lock", f"the cluster '{self.name}'"):
            found = instances.load(self.name)
            if found and self.alive:
                if found.control_plane_only and not self._control_plane_only:
                    raise DevClusterError(
                        f"'{self.name}' is up as a control plane only. "
                        f"Run `python -m devcluster down --name {self.name}` first."
                    )
                say(f"'{self.name}' is up already")
                return False
            if self.state_dir.exists():
                with step(f"'{self.name}' was killed or never became ready: cleaning up what it left"):
                    cleanup.remove(self.name)
            self._began = True
            self._up()
            self._ready_file.touch()
        return True

    def _up(self) -> None:
        need_disk(paths.state_root())
        full = not self._control_plane_only
        if full:
            system.require_root("a node with pods")
            system.ensure_packages()
        with locked(paths.state_root() / "slots.lock", "choosing ports"):
            record = Instance(
                name=self.name,
                slot=instances.choose_slot(self.name, self._control_plane_only),
                control_plane_only=self._control_plane_only,
                s3=self._with_s3,
                s3_access_key="dev" + secrets.token_hex(8),
                s3_secret_key=secrets.token_hex(20),
            )
            record.save()
        if full:
            network.up(record)
        with step("control plane", "5 s"):
            controlplane.start(record, self.processes)
        if self._with_s3:
            with step("S3 server", "1 s"):
                s3.start(record, self.processes)
                s3.create_bucket(record, BUCKET)
        if full:
            with step("node", "15 s"):
                node.start(record, self.processes)
                node.wait_ready(self)
            with step("base image", "5 s; 90 s the first time"):
                self.load_image(images.base().archive)
            if self._with_kuberay:
                self.install_kuberay()
            if self._with_kueue:
                self.install_kueue()
        if self._with_argocd:
            self.install_argocd()

    def down(self, only_dead: bool = False) -> bool:
        """Stop everything and remove every trace; True when there was anything.

        Args:
            only_dead: leave a live cluster alone.
        """
        with locked(paths.state_root() / f"{self.name}.lock", f"the cluster '{self.name}'"):
            if not self.state_dir.exists() or (only_dead and self.alive):
                return False
            with step(f"stopping '{self.name}'", "3 s"):
                cleanup.remove(self.name)
        return True

    @property
    def alive(self) -> bool:
        """It came up once and its API server's process runs."""
        return self._ready_file.exists() and self.processes.alive("kube-apiserver")

    @property
    def _ready_file(self) -> Path:
        return self.state_dir / "ready"

    # -- facts --------------------------------------------------------------------------------------------------------

    @property
    def instance(self) -> Instance:
        """Its record: ports, networks, credentials.

        Raises:
            DevClusterError: it is not up.
        """
        found = instances.load(self.name)
        if not found:
            raise DevClusterError(f"'{self.name}' is not up: run `python -m devcluster up --name {self.name}`.")
        return found

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of an administrator."""
        return self.state_dir / "kubeconfig"

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self.instance.server

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON event a line (user, user agent, verb, object; no bodies)."""
        return controlplane.audit_log(self.instance)

    @property
    def logs_dir(self) -> Path:
        """One log file a program."""
        return self.instance.logs

    @property
    def s3_endpoint(self) -> str:
        """URL of the S3 server, the same from the host and from pods."""
        return self.instance.s3_endpoint

    @property
    def s3_access_key(self) -> str:
        """Access key of the S3 server's root account."""
        return self.instance.s3_access_key

    @property
    def s3_secret_key(self) -> str:
        """Secret key of the S3 server's root account."""
        return self.instance.s3_secret_key

    @property
    def s3_access_log(self) -> Path:
        """The S3 server's access log, one request a line in the format of S3 server access logs."""
        return s3.access_log(self.instance)

    @property
    def node_name(self) -> str:
        """Name of the one Node."""
        return self.instance.node_name

    @property
    def node_ip(self) -> str:
        """Address of the one Node."""
        return self.instance.node_ip

    @property
    def base_image(self) -> str:
        """Tag of the base image: Debian 12 with Python, made by debootstrap; it is on the node."""
        return images.base().tag

    @property
    def kubectl_bin(self) -> Path:
        """Path of kubectl."""
        return tools.kubectl()

    @property
    def helm_bin(self) -> Path:
        """Path of helm."""
        return tools.helm()

    @property
    def trainenv(self) -> TrainEnv:
        """The training environment, installed at need."""
        return trainenv.ensure()

    def env(self) -> dict[str, str]:
        """Variables with which programs on this machine find the cluster and its S3 server."""
        found = {"KUBECONFIG": str(self.kubeconfig), "DEVCLUSTER_NAME": self.name}
        if self.instance.s3:
            found |= {
                "AWS_ENDPOINT_URL": self.s3_endpoint,
                "AWS_ACCESS_KEY_ID": self.s3_access_key,
                "AWS_SECRET_ACCESS_KEY": self.s3_secret_key,
                "AWS_REGION": s3.REGION,
            }
        return found

    # -- acts ---------------------------------------------------------------------------------------------------------

    def kubectl(self, *args: str | Path, stdin: str | None = None, timeout: float = 120) -> str:
        """Run kubectl as administrator and return what it prints.

        Raises:
            DevClusterError: it failed; the message holds what it said.
        """
        argv = [self.kubectl_bin, "--kubeconfig", self.kubeconfig, *args]
        # a company's HTTPS_PROXY does not know the way to this cluster
        return run(argv, stdin=stdin, timeout=timeout, env={"NO_PROXY": self.instance.host_ip})

    def install_kuberay(self) -> None:
        """Install the KubeRay operator as a Deployment in ``kuberay-system`` and wait until it runs."""
        kuberay.install(self)

    def install_kueue(self) -> None:
        """Install Kueue as a Deployment in ``kueue-system`` and wait until it runs."""
        kueue.install(self)

    def install_argocd(self, settings: Mapping[str, str] | None = None) -> None:
        """Run Argo CD beside the cluster, in the namespace ``argocd``; `settings` are keys of its ``argocd-cm``."""
        argocd.install(self, settings=dict(settings or {}))

    def set_gpus(self, count: int) -> None:
        """Give the node ``count`` GPUs by name (``nvidia.com/gpu``): real to scheduler and quota, but no devices."""
        operations = ",".join(
            f'{{"op":"add","path":"/status/{part}/nvidia.com~1gpu","value":"{count}"}}'
            for part in ("capacity", "allocatable")
        )
        self.kubectl("patch", "node", self.node_name, "--subresource=status", "--type=json", "-p", f"[{operations}]")

    def build_image(
        self,
        dockerfile: Path,
        target: str | None = None,
        tag: str = "localhost/trainsweep:dev",
        build_args: Mapping[str, str] | None = None,
        context: Path | None = None,
    ) -> Path:
        """Build an image with buildah and put it on the node; pods use it with ``imagePullPolicy: Never``.

        Args:
            dockerfile: the Dockerfile; it may build on :attr:`base_image`, given as a build argument.
            target: the stage to build; the last one without it.
            tag: the image's name, with a registry part ("localhost/…").
            build_args: build arguments.
            context: folder that COPY reads; the Dockerfile's without it.

        Returns:
            path of the image as an archive.
        """
        archive = images.build(dockerfile, target, tag, build_args or {}, context or dockerfile.parent)
        self.load_image(archive)
        return archive

    def load_image(self, archive: Path) -> None:
        """Put an image from a docker or OCI archive on the node."""
        images.load(self.instance, archive)

    def pause(self, program: str) -> None:
        """Freeze a program (SIGSTOP): its connections stay open and nothing answers."""
        self.processes.signal(program, signal.SIGSTOP)

    def resume(self, program: str) -> None:
        """Let a paused program go on; start again a killed one."""
        self.processes.signal(program, signal.SIGCONT)
        self.start(program)

    def kill(self, program: str) -> None:
        """End a program at once (SIGKILL) and return when it is gone."""
        handle = self.processes.handle(program)
        self.processes.signal(program, signal.SIGKILL)
        wait_for(f"{program} gone", lambda: "alive" if handle.alive else None, 10)

    def start(self, program: str) -> None:
        """Start a killed program as it was started before, and wait until it serves where that is known."""
        self.processes.restart(program)
        if program in ("kube-apiserver", "etcd"):
            controlplane.wait_ready(self.instance, self.processes)
        if program == "versitygw":
            s3.wait_ready(self.instance, self.processes)

    def exec_on_node(self, *argv: str | Path) -> str:
        """Run a program of this machine inside the node's network."""
        return run([*network.inside(self.instance), *argv])
