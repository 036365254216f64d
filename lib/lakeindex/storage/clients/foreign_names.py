"""Names of storage options that other clients have (PyIceberg, Hadoop, s3fs), as ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeindex.errors import OptionError
from lakeindex.storage.clients.limits import ANSWER_OPTION, CONNECT_OPTION
from lakeindex.storage.options import StoreOptions

_KEYS: Final = {"access-key-id": "access_key_id", "secret-access-key": "secret_access_key"}
_S3: Final[Mapping[str, str]] = {
    **{
        f"{client}.{theirs}": f"aws_{ours}"
        for client in ("s3", "client")
        for theirs, ours in {
            **_KEYS,
            "session-token": "session_token",
            "region": "region",
            "profile-name": "profile",
        }.items()
    },
    "s3.endpoint": "aws_endpoint_url",
    "s3.anonymous": "aws_skip_signature",
    "s3.force-virtual-addressing": "aws_virtual_hosted_style_request",
    "s3.connect-timeout": CONNECT_OPTION,
    "s3.request-timeout": ANSWER_OPTION,
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
    "fs.s3a.session.token": "aws_session_token",
    "fs.s3a.endpoint": "aws_endpoint_url",
    "fs.s3a.endpoint.region": "aws_region",
    "key": "aws_access_key_id",
    "secret": "aws_secret_access_key",
    "token": "aws_session_token",
    "profile": "aws_profile",
    "anon": "aws_skip_signature",
}
_AZURE: Final[Mapping[str, str]] = {
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_token",
    "adls.tenant-id": "azure_storage_tenant_id",
    "adls.client-id": "azure_storage_client_id",
    "adls.client-secret": "azure_storage_client_secret",
}
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {"aws_": _S3, "azure_": _AZURE, "google_": {}}
_FOREIGN: Final[Mapping[str, tuple[str, ...]]] = {
    "aws_": ("s3.", "client.", "fs.s3a.", "fs.s3.", "spark.hadoop.fs.s3"),
    "azure_": ("adls.", "fs.azure.", "spark.hadoop.fs.azure."),
    "google_": ("gcs.", "fs.gs.", "spark.hadoop.fs.gs."),
}
"""How names begin that other clients give to settings of this kind of store."""
_PATH_STYLE: Final = ("fs.s3a.path.style.access", "s3.path-style-access")
_TLS: Final = "fs.s3a.connection.ssl.enabled"
_ACCOUNT_KEY: Final = "fs.azure.account.key."


def in_our_names(options: StoreOptions, own: str) -> StoreOptions:
    """The options, with those of other clients that are about this kind of store by our names; ours count for more.

    Args:
        options: as they were given.
        own: how our names for this kind of store begin.

    Raises:
        OptionError: another client's name that has no counterpart.
    """
    foreign: dict[str, str] = {}
    ours: dict[str, str] = {}
    for name, value in options.pairs:
        plain = name.removeprefix("spark.hadoop.")
        if name.startswith(_FOREIGN[own]) or name in _NAMES[own]:
            foreign |= _translated(plain, value, own, options)
        else:
            ours[name] = value
    return StoreOptions.of(foreign | ours) if foreign else options


def _translated(name: str, value: str, own: str, options: StoreOptions) -> dict[str, str]:
    if own == "aws_" and name in _PATH_STYLE:
        return {"aws_virtual_hosted_style_request": "false" if value.lower() == "true" else "true"}
    if own == "aws_" and name == _TLS:
        return {} if value.lower() == "true" else {"aws_allow_http": "true"}
    if own == "azure_" and name.startswith(_ACCOUNT_KEY):
        return {"azure_storage_account_key": value}
    ours = _NAMES[own].get(name)
    if ours is None:
        known = ", ".join(sorted({*_NAMES[own].values()})) or "google_service_account, google_service_account_key"
        raise OptionError(
            f"storage option {name!r} is another client's, and has no counterpart here",
            culprit=name,
            hint=f"leave it out; ours are {known} (docs/storage.md), or set up a profile in ~/.aws"
            if own == "aws_"
            else f"leave it out; ours are {known} (docs/storage.md)",
        )
    if name == "fs.s3a.endpoint" and "://" not in value:  # Hadoop's may be a host alone
        is_plain = next((text for key, text in options.pairs if key.endswith(_TLS)), "true").lower() != "true"
        value = f"{'http' if is_plain else 'https'}://{value}"
    return {ours: value}
