"""Clients of S3, made once each: by region and endpoint, and by the role of a class that is assumed to read.

A role is assumed with the sweep's namespace as a session tag, so that one role serves many teams and its policy can
hold each to its own prefix. Its credentials are renewed well before they end, by whichever request comes first.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import Credentials, DeferredRefreshableCredentials
from botocore.exceptions import BotoCoreError

from trainsweep.runtime.store import Denied

CONNECT_SECONDS, READ_SECONDS = 5, 15
POOL = 16
SESSION_SECONDS = 3600
NAMESPACE_TAG = "kubernetes-namespace"
"""As EKS Pod Identity names it: a policy written for the pods' sessions fits the operator's too."""
_lock = threading.Lock()


@dataclass(frozen=True)
class Role:
    """A role to assume, and for whom."""

    arn: str
    namespace: str


@dataclass(frozen=True)
class _Known:
    """Stands in a botocore session for its chain of credential providers."""

    credentials: Credentials

    def load_credentials(self) -> Credentials:
        return self.credentials


def _config(endpoint: str) -> Config:
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": 3},
        max_pool_connections=POOL,
        # A store behind an endpoint rarely answers to bucket.host names.
        s3={"addressing_style": "path"} if endpoint else {},
        # Other stores do not know the checksums that botocore asks for by default.
        request_checksum_calculation="when_required" if endpoint else "when_supported",
        response_checksum_validation="when_required",
    )


@lru_cache(maxsize=256)
def _make_client(region: str, endpoint: str, role: Role | None = None) -> Any:
    if role is None:
        session = boto3.session.Session()  # the default session is not thread-safe
    else:
        below = botocore.session.get_session()
        below.register_component("credential_provider", _Known(credentials_of(role, lambda: _sts(region))))
        session = boto3.session.Session(botocore_session=below)
    return session.client("s3", region_name=region or None, endpoint_url=endpoint or None, config=_config(endpoint))


def _sts(region: str) -> Any:
    """Made with the operator's own identity. The regional endpoint: the global one is far, and off in private clusters."""
    config = Config(connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries={"total_max_attempts": 3})
    return boto3.session.Session().client("sts", region_name=region or None, config=config)


def credentials_of(role: Role, sts: Callable[[], Any]) -> DeferredRefreshableCredentials:
    """Credentials of a role, renewed by botocore in the last quarter of an hour of their life.

    Args:
        role: what is assumed.
        sts: makes the client that assumes it; asked for at the first use, as nothing may block before.
    """

    def assume() -> dict[str, str]:
        answer = sts().assume_role(
            RoleArn=role.arn,
            RoleSessionName=re.sub(r"[^\w+=,.@-]", "-", f"trainsweep-{role.namespace}")[:64],
            DurationSeconds=SESSION_SECONDS,
            Tags=[{"Key": NAMESPACE_TAG, "Value": role.namespace}],
        )["Credentials"]
        ends = answer["Expiration"]
        return {
            "access_key": answer["AccessKeyId"],
            "secret_key": answer["SecretAccessKey"],
            "token": answer["SessionToken"],
            "expiry_time": ends.isoformat() if isinstance(ends, datetime) else str(ends),
        }

    return DeferredRefreshableCredentials(assume, "trainsweep-verifier-role")


def client_for(region: str, endpoint: str, role: Role | None = None) -> Any:
    """The client for a region, an endpoint and a role; made once, safe to share between threads.

    Raises:
        Denied: where none can be made.
    """
    with _lock:
        try:
            return _make_client(region, endpoint, role)
        except (BotoCoreError, ValueError) as error:
            raise Denied(
                f"no client for endpoint {endpoint or 'of AWS'}, region {region or 'unset'}: {error}"
            ) from None
