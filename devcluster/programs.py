"""The catalogue: every program of the cluster, with its pin. Change a pin here and in ``go/<name>/go.mod``."""

from pathlib import Path

from devcluster import golang
from devcluster.golang import GoProgram
from devcluster.tools import from_user

_KUBERNETES_VERSION = "v1.34.4"


def _version_flags(version: str) -> str:
    """Without these the API server calls itself v0.0.0-master and clients' version checks misbehave."""
    major, minor, _ = version.removeprefix("v").split(".")
    facts = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "unknown",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{key}={value}" for package in packages for key, value in facts.items())


KUBERNETES = GoProgram(
    name="kubernetes",
    module="k8s.io/kubernetes",
    version=_KUBERNETES_VERSION,
    package=".",
    expected="7 to 10 min on 2 cores",
    ldflags=_version_flags(_KUBERNETES_VERSION),
)
KUBERAY = GoProgram(
    name="kuberay",
    module="github.com/ray-project/kuberay/ray-operator",
    version="v1.6.1",
    package="github.com/ray-project/kuberay/ray-operator",
    expected="2 to 3 min on 2 cores",
)
VERSITYGW = GoProgram(
    name="versitygw",
    module="github.com/versity/versitygw",
    version="v1.8.0",
    package="github.com/versity/versitygw/cmd/versitygw",
    expected="2 min on 2 cores",
)
COREDNS = GoProgram(
    name="coredns",
    module="github.com/coredns/coredns",
    version="v1.15.0",
    package=".",
    expected="2 min on 2 cores",
)
KUEUE = GoProgram(
    name="kueue",
    module="sigs.k8s.io/kueue",
    version="v0.17.0",
    package="sigs.k8s.io/kueue/cmd/kueue",
    expected="4 to 5 min on 2 cores",
)

ARGOCD = GoProgram(
    name="argocd",
    module="github.com/argoproj/argo-cd/v3",
    version="v3.5.3",
    package=".",
    expected="5 to 6 min on 2 cores",
    ldflags="-X github.com/argoproj/argo-cd/v3/common.version=3.5.3",
)

ALL = (KUBERNETES, VERSITYGW, COREDNS, KUBERAY)
"""What a full cluster is built from."""
EXTRAS = (KUEUE, ARGOCD)
"""Built on demand: ``--with kueue``, ``--with argocd``."""

ARGOCD_PROGRAMS = ("argocd-cache", "argocd-repo-server", "argocd-application-controller", "argocd-server")
_INSIDE = {
    "etcd": KUBERNETES,
    "kube-apiserver": KUBERNETES,
    "kube-controller-manager": KUBERNETES,
    "kube-scheduler": KUBERNETES,
    "kube-proxy": KUBERNETES,
    "kubelet": KUBERNETES,
    **dict.fromkeys(ARGOCD_PROGRAMS, ARGOCD),
}
"""Programs that share a binary, which looks at the name that it is called by."""


def path(program: str) -> Path:
    """Path of one program by the name it is called by; builds it where neither user nor cache has it."""
    given = from_user(program)
    if given:
        return given
    if program in _INSIDE:
        binary = golang.ensure(_INSIDE[program])
        link = binary.parent / program
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(binary.name)
        return link
    wanted = next((one for one in (*ALL, *EXTRAS) if one.name == program), None)
    if wanted is None:
        raise KeyError(program)
    return golang.ensure(wanted)
