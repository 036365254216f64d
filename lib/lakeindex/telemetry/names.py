"""Names of datasets as OpenLineage's naming specification has them."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

_SAME_BUCKET = {"s3a": "s3", "s3n": "s3"}


def dataset_name(uri: str) -> tuple[str, str]:
    """Namespace and name of a table's folder, of an input file, or of the folder that a ``*`` pattern looks into.

    ========================  ======================================================  ==============
    place                     namespace                                               name
    ========================  ======================================================  ==============
    ``/lake/t``, ``file://``  ``file``                                                ``/lake/t``
    ``s3://b/t``, ``s3a://``  ``s3://b``                                              ``t``
    ``gs://b/t``              ``gs://b``                                              ``t``
    ``az://c/t``              ``abfss://c@ACCOUNT.dfs.core.windows.net``, if the      ``/t``
                              environment names the account; else ``az://c``
    ========================  ======================================================  ==============

    Args:
        uri: a path or URL.
    """
    place = _without_pattern(uri)
    scheme, separator, rest = place.partition("://")
    if not separator or scheme == "file":
        return "file", str(Path(rest if separator else place).absolute())
    authority, _, path = rest.partition("/")
    path = path.strip("/")
    if scheme in {"abfs", "abfss"}:
        return f"abfss://{authority}", f"/{path}"
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if scheme == "az" and account:
        return f"abfss://{authority}@{account}.dfs.core.windows.net", f"/{path}"
    return f"{_SAME_BUCKET.get(scheme, scheme)}://{authority}", path or "/"


def _without_pattern(uri: str) -> str:
    """The place as it is; of a pattern, the folder above the first level with a ``*``."""
    levels = uri.rstrip("/").split("/")
    for number, level in enumerate(levels):
        if "*" in level:
            return "/".join(levels[:number]) or "/"
    return posixpath.join("/".join(levels)) or "/"
