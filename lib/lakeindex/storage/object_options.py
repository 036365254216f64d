"""Options of object stores that come from elsewhere: by the names that other clients give them (PyIceberg, Hadoop,
s3fs), and from profiles of ``~/.aws`` (keys, region and endpoint of the files ``credentials`` and ``config``).
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lakeindex.errors import OptionError
from lakeindex.storage.options import ANSWER_OPTION, CONNECT_OPTION, StoreOptions

_KEY_NAMES: Final = {"access-key-id": "access_key_id", "secret-access-key": "secret_access_key"}
_S3: Final[Mapping[str, str]] = {
    **{
        f"{client}.{theirs}": f"aws_{ours}"
        for client in ("s3", "client")
        for theirs, ours in {
            **_KEY_NAMES,
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
_SAME: Final[Mapping[str, str]] = {
    **dict.fromkeys(("endpoint_url_s3", "endpoint_url"), "endpoint"),
    "default_region": "region",
    "session_token": "token",
    "sas_key": "sas_token",
    **dict.fromkeys(("access_key", "master_key"), "account_key"),
    "authority_id": "tenant_id",
}
"""Other names of ours for the same, without what is in front of all of them."""
_PATH_STYLE: Final = ("fs.s3a.path.style.access", "s3.path-style-access")
_TLS: Final = "fs.s3a.connection.ssl.enabled"
_ACCOUNT_KEY: Final = "fs.azure.account.key."


def in_our_names(options: StoreOptions, own: str) -> StoreOptions:
    """The options, with other clients' names for this kind of store translated into ours; where both are given, ours
    win.

    Args:
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
    said = {_meant(name, own) for name in ours}
    left = {name: value for name, value in foreign.items() if _meant(name, own) not in said}
    return StoreOptions.of(left | ours) if foreign else options


def _meant(name: str, own: str) -> str:
    """What an option is about, by whichever of our names for it."""
    plain = name.removeprefix(own).removeprefix("storage_")
    return _SAME.get(plain, plain)


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


_PROFILE_KEYS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_OTHERS: Final = {"region": "aws_region", "endpoint_url": "aws_endpoint_url"}
_NEED_MORE: Final = ("role_arn", "credential_process", "sso_session", "sso_start_url", "login_session")
"""What makes keys by asking somebody else for them."""
_OWN_KEYS: Final = (
    *("aws_access_key_id", "aws_skip_signature", "aws_web_identity_token_file"),
    *("aws_container_credentials_relative_uri", "aws_container_credentials_full_uri"),
)
"""What says where keys come from, before a profile does."""
_ENDPOINTS: Final = ("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint", "endpoint", "endpoint_url")
_REGIONS: Final = ("aws_region", "aws_default_region", "region", "default_region")


def with_profile(options: StoreOptions) -> StoreOptions:
    """Options of S3, completed from a profile if neither they nor the environment say where keys come from: from
    ``AWS_PROFILE``, else from ``default`` if there is one.

    Raises:
        OptionError: a profile that is asked for is not there, or gets its keys by asking somebody else.
    """
    without = {name: value for name, value in options.pairs if name not in ("aws_profile", "profile")}
    named = options.get("aws_profile") or options.get("profile")
    wanted = named or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    given = StoreOptions.of(without)
    in_full = {name if name.startswith("aws_") else f"aws_{name}": value for name, value in without.items()}
    if _said(in_full, _OWN_KEYS[:2]):
        return given
    if not named and _said(in_full, _OWN_KEYS, os.environ):
        return given
    credentials = _sections("AWS_SHARED_CREDENTIALS_FILE", "credentials")
    config = _sections("AWS_CONFIG_FILE", "config")
    name = wanted or "default"
    found = {**config.get(name if name == "default" else f"profile {name}", {}), **credentials.get(name, {})}
    if not found:
        if wanted is None:
            return given
        known = sorted({*credentials, *(one.removeprefix("profile ") for one in config)})
        raise OptionError(
            f"there is no profile {name!r} in ~/.aws",
            culprit="AWS_PROFILE",
            hint=f"profiles there: {', '.join(known) or 'none'}; AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name "
            "other files",
        )
    if not found.get("aws_access_key_id"):
        asked = next((one for one in _NEED_MORE if one in found), None)
        if asked is not None and wanted is not None:
            raise OptionError(
                f"profile {name!r} gets its keys by {asked}, which lakeindex does not ask for",
                culprit="AWS_PROFILE",
                hint="let the AWS command line ask: "
                f'eval "$(aws configure export-credentials --profile {name} --format env)"',
            )
    said = {key: found[key] for key in _PROFILE_KEYS if found.get("aws_access_key_id") and found.get(key)}
    for theirs, ours in _OTHERS.items():
        names = _REGIONS if ours == "aws_region" else _ENDPOINTS
        if found.get(theirs) and not _said(without, names, os.environ):
            said[ours] = found[theirs]
    return StoreOptions.of(said | without)


def _said(options: Mapping[str, str], names: tuple[str, ...], environment: Mapping[str, str] | None = None) -> bool:
    there = {} if environment is None else environment
    return any(options.get(name) or there.get(name.upper()) for name in names)


def _sections(variable: str, name: str) -> dict[str, dict[str, str]]:
    path = Path(os.environ.get(variable) or Path("~/.aws", name)).expanduser()
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise OptionError(
            f"{path} cannot be read: {type(error).__name__}", culprit=str(path), hint=f"correct it, or set {variable}"
        ) from error
    return {section: dict(parser[section]) for section in parser.sections()}
