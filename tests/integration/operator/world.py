"""Everything around the operator in one object: API server, store, doubles, and how a test looks at them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from devcluster import golang, programs, shell, tools
from devcluster.cluster import Cluster
from tests.integration.operator.doubles.api import Api, ApiError, Object
from tests.integration.operator.doubles.driver import Drivers, Run, Script
from tests.integration.operator.doubles.kuberay import KubeRayDouble
from tests.integration.operator.process import ROOT, Operator
from tests.integration.operator.sweeps import condition, states
from trainsweep.contract import labels
from trainsweep.runtime.kube import EVENT, HOLD, POD, RAY_JOB, SWEEP, SWEEP_CLASS, Kind

NAMESPACE_KIND = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount")
CRD = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
SYSTEM, RELEASE = "trainsweep-system", "trainsweep"
OPERATOR_USER = f"system:serviceaccount:{SYSTEM}:{RELEASE}"
PATIENCE = 240.0
"""Seconds until a test gives up: most of them wait at the same time, on a machine that may be busy."""
WRITES = ("create", "update", "patch", "delete", "deletecollection")
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts/{name}",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}",
}


@dataclass
class World:
    """One cluster with its doubles. Operators are started by whoever needs one, each for namespaces of its own."""

    cluster: Cluster
    folder: Path
    operators: list[Operator] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.api = Api(self.cluster.kubeconfig, "integration-tests")
        for key, value in self.cluster.env().items():
            if key.startswith("AWS_") and "ENDPOINT" not in key:
                os.environ[key] = value  # the drivers' credentials
        self.drivers = Drivers(lambda: self.kuberay.pods)
        self.kuberay = KubeRayDouble(Api(self.cluster.kubeconfig, "kuberay-double"), self.drivers)

    # ---------------------------------------------------------------------------------------------------- installation

    def install(self, *, kuberay: bool = True) -> None:
        """The chart's CRDs and rights, the operator's identity, and KubeRay's CRDs with its double."""
        self.namespace(SYSTEM)
        text = shell.run([tools.helm(), "template", RELEASE, ROOT / "charts" / "trainsweep", "--namespace", SYSTEM])
        for body in yaml.safe_load_all(text):
            if body and body["kind"] in PATHS:
                self.api.apply(body, PATHS[body["kind"]].format(**{"namespace": "", **body["metadata"]}))
        self.established(
            "trainsweeps.trainsweep.io", "trainsweepclasses.trainsweep.io", "trainsweepholds.trainsweep.io"
        )
        self.kubeconfig = self._kubeconfig(RELEASE)
        if kuberay:
            self.install_kuberay()
            self.kuberay.start()

    def install_kuberay(self) -> None:
        """KubeRay's own CRDs, of the version that the dev cluster runs."""
        bases = golang.module_dir(programs.KUBERAY) / "config" / "crd" / "bases"
        for name in ("rayjobs", "rayclusters"):
            body = yaml.safe_load((bases / f"ray.io_{name}.yaml").read_text())
            self.api.apply(body, PATHS["CustomResourceDefinition"].format(name=body["metadata"]["name"]))
        self.established("rayjobs.ray.io", "rayclusters.ray.io")

    def established(self, *names: str) -> None:
        """Waits until CRDs are served."""
        for name in names:
            self.until(
                lambda name=name: condition(self.api.get(CRD, name), "Established").get("status") == "True", name
            )

    def _kubeconfig(self, account: str) -> Path:
        path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 7200},
        }
        token = self.api.call("POST", path, request)["status"]["token"]
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "c", "cluster": {"server": self.cluster.server, "certificate-authority": str(self.api.ca)}}
            ],
            "users": [{"name": "operator", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "operator"}}],
            "current-context": "x",
        }
        target = self.folder / f"{self.cluster.name}-{account}.kubeconfig"
        target.write_text(yaml.safe_dump(config))
        return target

    def namespace(self, name: str) -> str:
        """A namespace, with the ServiceAccount without which pods are refused."""
        try:
            self.api.create(NAMESPACE_KIND, {"metadata": {"name": name}})
        except ApiError as error:
            if error.status != 409:
                raise
        self.until(lambda: self.api.get(ACCOUNT, "default", name) is not None, f"ServiceAccount in {name}")
        return name

    def sweep_class(self, body: Mapping[str, Any]) -> None:
        """Creates a class."""
        self.api.create(SWEEP_CLASS, body)

    def operator(self, name: str, *namespaces: str, **env: str) -> Operator:
        """An operator for namespaces of its own, not yet started, with credentials that the store knows."""
        credentials = {k: v for k, v in self.cluster.env().items() if k.startswith("AWS_") and "ENDPOINT" not in k}
        made = Operator(self.kubeconfig, self.folder / f"{name}.log", namespaces, {**credentials, **env})
        self.operators.append(made)
        return made

    def nobody(self) -> Path:
        """Kubeconfig of a ServiceAccount without any right."""
        if self.api.get(ACCOUNT, "nobody", SYSTEM) is None:
            self.api.create(ACCOUNT, {"metadata": {"name": "nobody"}}, SYSTEM)
        return self._kubeconfig("nobody")

    def may(self, user: str, verb: str, resource: str, namespace: str) -> bool:
        """`kubectl auth can-i VERB RESOURCE -n NAMESPACE --as USER`."""
        name, _, sub = resource.partition("/")
        plural, _, group = name.partition(".")
        wanted = {"verb": verb, "group": group, "resource": plural, "subresource": sub, "namespace": namespace}
        groups = ["system:authenticated"]
        if user.startswith("system:serviceaccount:"):
            groups += ["system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}"]
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": wanted},
        }
        return bool(
            self.api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]
        )

    def close(self) -> None:
        """Ends all that runs here."""
        for operator in self.operators:
            operator.kill()
        self.kuberay.stop()

    # ---------------------------------------------------------------------------------------------------------- sweeps

    def submit(self, body: Mapping[str, Any], *scripts: Script) -> Object:
        """Creates a sweep whose drivers follow the scripts."""
        meta = body["metadata"]
        if scripts:
            self.drivers.script(meta["namespace"], meta["name"], *scripts)
        return self.api.create(SWEEP, body, meta["namespace"])

    def sweep(self, body: Object) -> Object:
        """A sweep as it is now."""
        meta = body["metadata"]
        found = self.api.get(SWEEP, meta["name"], meta["namespace"])
        assert found is not None, f"sweep {meta['namespace']}/{meta['name']} is gone"
        return found

    def patch(self, body: Object, change: Mapping[str, Any]) -> None:
        """A merge patch of a sweep."""
        self.api.patch(SWEEP, body["metadata"]["name"], change, body["metadata"]["namespace"])

    def delete(self, body: Object, policy: str = "Background") -> None:
        """Deletes a sweep."""
        self.api.delete(SWEEP, body["metadata"]["name"], body["metadata"]["namespace"], policy=policy)

    def runs(self, body: Object) -> list[Run]:
        """What its drivers did, attempt by attempt."""
        return self.drivers.runs(body["metadata"]["namespace"], body["metadata"]["name"])

    def training(self, body: Object, attempt: int = 1) -> Run:
        """Waits until an attempt has trained all but its last epoch, and the operator has seen it."""

        def probe() -> Run | None:
            runs = self.runs(body)
            return runs[attempt - 1] if len(runs) >= attempt and len(runs[attempt - 1].trained) >= 3 else None

        run: Run = self.until(probe, f"{body['metadata']['name']}: attempt {attempt} trains")
        self.reaches(body, "Succeeded", "Unknown", "Running")
        return run

    def events(self, body: Object) -> list[Object]:
        """Events on a sweep."""
        meta = body["metadata"]
        return [e for e in self.api.list(EVENT, meta["namespace"]) if e["involvedObject"]["uid"] == meta["uid"]]

    def rayjobs(self, body: Object) -> list[Object]:
        """RayJobs of a sweep, whatever their owners."""
        return self._children(RAY_JOB, body)

    def holds(self, body: Object) -> list[Object]:
        """Holds of a sweep."""
        return self._children(HOLD, body)

    def pods(self, body: Object) -> list[Object]:
        """Pods of a sweep."""
        return self._children(POD, body)

    def _children(self, kind: Kind, body: Object) -> list[Object]:
        meta = body["metadata"]
        return self.api.list(kind, meta["namespace"], f"{labels.SWEEP_UID}={meta['uid']}")

    # --------------------------------------------------------------------------------------------------------- waiting

    def until(self, probe: Callable[[], Any], what: str, timeout: float = PATIENCE, every: float = 0.3) -> Any:
        """Waits until the probe gives something true, and returns that."""
        end = time.monotonic() + timeout
        while True:
            found = probe()
            if found:
                return found
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not within {timeout} s; last seen: {found!r}")
            time.sleep(every)

    def reaches(
        self, body: Object, kind: str, status: str = "True", reason: str = "", timeout: float = PATIENCE
    ) -> Object:
        """Waits for a condition; the error shows all of them."""
        meta = body["metadata"]
        seen: Object = {}

        def probe() -> Object | None:
            nonlocal seen
            seen = self.sweep(body)
            found = condition(seen, kind)
            good = found.get("status") == status and (not reason or found.get("reason") == reason)
            return seen if good else None

        try:
            return self.until(probe, f"{meta['name']}: {kind}={status} {reason}", timeout)
        except AssertionError as error:
            tails = "\n".join(o.tail(25) for o in self.operators if o.code is None)
            words = {c["type"]: c["message"] for c in (seen.get("status") or {}).get("conditions") or []}
            raise AssertionError(f"{error}\n{states(seen)}\n{words}\n{tails}") from None

    def ended(self, body: Object, timeout: float = PATIENCE) -> Object:
        """Waits until a sweep is terminal and its last pod is gone."""
        self.reaches(body, "Finished", timeout=timeout)
        return self.reaches(body, "Released", timeout=timeout)

    def gone(self, body: Object, timeout: float = PATIENCE) -> None:
        """Waits until the sweep's object is gone."""
        meta = body["metadata"]

        def probe() -> bool:
            return self.api.get(SWEEP, meta["name"], meta["namespace"]) is None

        try:
            self.until(probe, f"{meta['name']} gone", timeout)
        except AssertionError as error:
            left = self.api.get(SWEEP, meta["name"], meta["namespace"]) or {}
            tails = "\n".join(o.tail(25) for o in self.operators if o.code is None)
            raise AssertionError(f"{error}\n{states(left)}\n{left.get('metadata')}\n{tails}") from None

    # ------------------------------------------------------------------------------------------------------------ logs

    def audit(self, namespace: str, *, user: str = OPERATOR_USER) -> list[dict[str, Any]]:
        """Writes of a user ("" for all) in a namespace, refused ones too, in the order of the audit log."""
        found = []
        for line in self.cluster.audit_log.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # the line that is being written
            ref = event.get("objectRef") or {}
            ours = user in ("", event["user"].get("username"))  # a request that was given up early has no user
            if ours and event["verb"] in WRITES and ref.get("namespace") == namespace:
                found.append(event)
        return found

    def store_requests(self, text: str, *, by_operator: bool = True) -> list[str]:
        """Lines of the store's access log that hold a text, of the operator or of all others."""
        lines = self.cluster.s3_access_log.read_text(errors="replace").splitlines()
        return [one for one in lines if text in one and ("app/trainsweep-operator" in one) == by_operator]


def shown(events: list[dict[str, Any]]) -> Iterator[str]:
    """Audit events in one line each, for messages."""
    for event in events:
        ref = event["objectRef"]
        sub = f"/{ref['subresource']}" if ref.get("subresource") else ""
        code = (event.get("responseStatus") or {}).get("code")
        yield f"{event['verb']} {ref['resource']}{sub} {ref.get('name', '')} -> {code}"
