"""Profiles of ``~/.aws``: keys, region and endpoint of the files ``credentials`` and ``config``."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lakeindex.errors import OptionError
from lakeindex.storage.options import StoreOptions

_KEYS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
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
    """Options of S3 with those of a profile, where neither they nor the environment say where keys come from: of
    ``AWS_PROFILE``, else of ``default`` if there is one.

    Raises:
        OptionError: a profile that is asked for and is not there, or whose keys have to be asked for.
    """
    without = {name: value for name, value in options.pairs if name not in ("aws_profile", "profile")}
    named = options.get("aws_profile") or options.get("profile")
    wanted = named or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    given = StoreOptions.of(without)
    if "access_key_id" in without or _said(without, _OWN_KEYS[:2]):
        return given
    if not named and _said(without, _OWN_KEYS, os.environ):
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
    said = {key: found[key] for key in _KEYS if found.get("aws_access_key_id") and found.get(key)}
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
