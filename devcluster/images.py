"""Images without a registry: made here, kept as archives in the cache, imported into the node's containerd."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from devcluster import system
from devcluster.archive import write_image
from devcluster.buildkey import build_key
from devcluster.errors import DevClusterError
from devcluster.golang import need_disk
from devcluster.instance import Instance
from devcluster.locks import locked
from devcluster.paths import cache_dir
from devcluster.report import step
from devcluster.shell import run, succeeds

PAUSE_TAG = "localhost/devcluster-pause:1"
_SUITE = "bookworm"
# procps and wget: KubeRay's probes before 1.6 call them; bash is in every minbase.
_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates,procps,wget"
_KEPT = 2
"""Archives of one tag that stay: of this checkout, and of one beside it."""
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True)
class Image:
    """An image as an archive in the cache.

    Attributes:
        tag: its name on the node.
        archive: the docker archive.
    """

    tag: str
    archive: Path


def _folder() -> Path:
    folder = cache_dir() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def containerd_socket(instance: Instance) -> Path:
    """The socket of the node's containerd."""
    return instance.state / "containerd" / "containerd.sock"


def ctr(instance: Instance) -> list[str]:
    """Words that begin a call of containerd's client for this node."""
    return ["ctr", "--address", str(containerd_socket(instance)), "--namespace", "k8s.io"]


def load(instance: Instance, archive: Path) -> None:
    """Import an archive into the node.

    Raises:
        DevClusterError: containerd refuses it.
    """
    run([*ctr(instance), "images", "import", archive], timeout=300)


def pause() -> Path:
    """The archive of the pause image: busybox asleep."""
    archive = _folder() / "pause-1.tar"
    with locked(cache_dir() / "locks" / "pause.lock", "the pause image"):
        if not archive.exists():
            busybox = shutil.which("busybox")
            if not busybox:
                raise DevClusterError("no busybox on this machine: install busybox-static.")
            write_image(
                archive,
                PAUSE_TAG,
                files={"/bin/busybox": Path(busybox)},
                entrypoint=["/bin/busybox", "sleep", "infinity"],
            )
    return archive


def static(name: str, version: str, program: Path) -> Image:
    """An image with one static program, ``/<name>``, run as nobody."""
    tag = f"localhost/{name}:{version}-{program.parent.name[-12:]}"
    archive = _folder() / f"{program.parent.name}.tar"
    with locked(cache_dir() / "locks" / f"image-{name}.lock", f"the image of {name}"):
        if not archive.exists():
            write_image(archive, tag, files={f"/{name}": program}, entrypoint=[f"/{name}"], user="65532:65532")
    return Image(tag, archive)


def base() -> Image:
    """The base image: Debian by debootstrap, with Python; made once.

    Raises:
        DevClusterError: not root, or debootstrap failed.
    """
    key = hashlib.sha256(f"{_SUITE} {_PACKAGES} 1".encode()).hexdigest()[:12]
    image = Image(f"localhost/devcluster-base:{_SUITE}-{key}", _folder() / f"base-{_SUITE}-{key}.tar")
    if image.archive.exists():
        return image
    with locked(cache_dir() / "locks" / "base-image.lock", "the base image"):
        if not image.archive.exists():
            system.require_root("making the base image")
            system.ensure_packages()
            with step("making the base image with debootstrap (once)", "90 s"):
                _debootstrap(image)
    return image


def _debootstrap(image: Image) -> None:
    need_disk(cache_dir())
    scratch = Path(tempfile.mkdtemp(prefix=".base-", dir=_folder()))
    try:
        root, layer = scratch / "root", scratch / "layer.tar"
        argv: list[str | Path] = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, root]
        mirror = _apt_mirror()
        run([*argv, mirror] if mirror else argv, hint=f"Its log: {root}/debootstrap/debootstrap.log")
        for waste in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
            shutil.rmtree(root / waste, ignore_errors=True)
            (root / waste).mkdir(parents=True)
        for name in ("etc/resolv.conf", "etc/hostname"):
            (root / name).unlink(missing_ok=True)
        sources = root / "etc/apt/sources.list"
        sources.write_text("")  # where this machine takes packages from is its own affair
        run(["tar", "--create", "--file", layer, "--numeric-owner", "--directory", root, "."])
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        write_image(image.archive, image.tag, layer=layer, env=[path], entrypoint=[])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _apt_mirror() -> str:
    """The mirror that this machine's apt uses for the suite; empty for debootstrap's own default."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    for file in files:
        text = file.read_text() if file.is_file() else ""
        for line in text.splitlines():
            words = [word for word in line.split() if not word.startswith("[") and not word.endswith("]")]
            if words[:1] == ["deb"] and words[2:3] == [_SUITE]:
                return words[1]
        if file.suffix == ".sources" and any(_SUITE in line.split() for line in text.splitlines()):
            for line in text.splitlines():
                if line.startswith("URIs:"):
                    return line.split()[1]
    return ""


@cache
def _buildah() -> tuple[str | Path, ...]:
    """Words that begin a call of buildah.

    Overlay shares layers; vfs copies the whole base at every step, but works anywhere.
    """
    store = cache_dir() / "buildah"
    for driver in ("overlay", "vfs"):
        place = store / driver
        argv = ("buildah", "--root", place / "root", "--runroot", place / "run", "--storage-driver", driver)
        if driver == "vfs" or succeeds([*argv, "images"]):
            return argv
    raise AssertionError  # vfs is always taken


def build(dockerfile: Path, target: str | None, tag: str, build_args: Mapping[str, str], context: Path) -> Path:
    """Build an image from a Dockerfile and return it as an archive; one of the same inputs is taken as it is.

    Where this machine reaches packages through a proxy with an authority of its own, the machine's bundle is mounted
    over the image's during the build (``SSL_CERT_FILE``), and ``PIP_CERT`` is given as a build argument; neither stays.

    Raises:
        DevClusterError: not root, or the build failed; the message holds the build's last lines.
    """
    system.require_root("building an image")
    safe = "".join(letter if letter.isalnum() else "-" for letter in tag)
    archive = _folder() / f"built-{safe}-{build_key(dockerfile, target, base().tag, build_args, context)}.tar"
    with locked(cache_dir() / "locks" / "buildah.lock", "building images"):
        if archive.exists():
            archive.touch()
            return archive
        need_disk(cache_dir())
        _ensure_base_in_buildah()
        argv = [*_buildah(), "bud", "--isolation", "chroot", "--layers", "--pull-never", "--format", "docker"]
        argv += ["--file", dockerfile, "--tag", tag]
        if target:
            argv += ["--target", target]
        arguments = dict(build_args)
        bundle = os.environ.get("SSL_CERT_FILE")
        if bundle and Path(bundle).is_file():
            argv += ["--volume", f"{Path(bundle).resolve()}:{_CERTIFICATES}:ro"]
            arguments.setdefault("PIP_CERT", _CERTIFICATES)
        for key, value in arguments.items():
            argv += ["--build-arg", f"{key}={value}"]
        with step(f"building image {tag}", "10 to 60 s"):
            run([*argv, context], hint="The lines above are the build's own.")
            fresh = archive.with_suffix(".new")
            fresh.unlink(missing_ok=True)
            run([*_buildah(), "push", tag, f"docker-archive:{fresh}:{tag}"])
            fresh.rename(archive)
        by_age = sorted(_folder().glob(f"built-{safe}-*.tar"), key=lambda file: file.stat().st_mtime)
        for older in by_age[:-_KEPT]:
            older.unlink()
    return archive


def digest(instance: Instance, tag: str) -> str:
    """Digest of an image as it is on the node."""
    lines = run([*ctr(instance), "images", "ls", f"name=={tag}"]).splitlines()
    found = [word for line in lines for word in line.split() if word.startswith("sha256:")]
    if not found:
        raise DevClusterError(f"{tag} is not on the node: build or load it first.")
    return found[0]


def _ensure_base_in_buildah() -> None:
    image = base()
    listed = run([*_buildah(), "images", "--format", "{{.Name}}:{{.Tag}}"])
    if image.tag not in listed.split():
        run([*_buildah(), "pull", f"docker-archive:{image.archive}"])
