"""Names of options and files of other clients: PyIceberg, Hadoop, s3fs, and the profiles of ``~/.aws``."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeindex.errors import OptionError
from lakeindex.storage import StoreOptions, open_storage
from lakeindex.storage.object_options import in_our_names, with_profile

VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION")


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*VARIABLES, "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


def test_a_store_is_reached_by_the_names_of_other_clients(moto_endpoint: str):
    host = moto_endpoint.removeprefix("http://")
    named = {
        "pyiceberg": {
            "s3.endpoint": moto_endpoint,
            "s3.access-key-id": "k",
            "s3.secret-access-key": "s",
            "s3.region": "us-east-1",
            "s3.connect-timeout": "5",
            "s3.request-timeout": 20,
        },
        "hadoop": {
            "fs.s3a.endpoint": host,
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.access.key": "k",
            "fs.s3a.secret.key": "s",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
        },
        "spark": {
            "spark.hadoop.fs.s3a.endpoint": moto_endpoint,
            "spark.hadoop.fs.s3a.access.key": "k",
            "spark.hadoop.fs.s3a.secret.key": "s",
            "aws_region": "us-east-1",
        },
        "s3fs": {"endpoint_url": moto_endpoint, "key": "k", "secret": "s", "region": "us-east-1"},
    }
    for client, options in named.items():
        store = open_storage("s3://lakeindex-contract/names", StoreOptions.of(options))
        store.write(client, client.encode())
        assert store.read(client) == client.encode()


def test_names_are_translated_or_refused_with_ours_and_no_value_is_shown():
    taken = {"adls.account-name": "a", "fs.azure.account.key.a.dfs.core.windows.net": "k", "adls.sas-token": "t"}
    found = in_our_names(StoreOptions.of(taken), "azure_")
    assert dict(found) == {
        "azure_storage_account_name": "a",
        "azure_storage_account_key": "k",
        "azure_storage_sas_token": "t",
    }
    ours = StoreOptions.of({"s3.region": "eu", "aws_region": "us"})
    assert dict(in_our_names(ours, "aws_")) == {"aws_region": "us"}, "our names count for more"
    others = StoreOptions.of({"dfs.replication": "1", "adls.account-name": "a", "fs.gs.project": "p"})
    assert in_our_names(others, "aws_") == others, "of other kinds of stores"
    refused = {
        "s3.role-arn": "s3://b/t",
        "s3.signer": "s3://b/t",
        "fs.s3a.aws.credentials.provider": "s3://b/t",
        "adls.connection-string": "az://c/t",
        "fs.azure.sas.fixed.token": "az://c/t",
        "gcs.oauth2.token": "gs://b/t",
    }
    for name, uri in refused.items():
        with pytest.raises(OptionError, match=name) as caught:
            open_storage(uri, StoreOptions.of({name: "s3cr3t"}))
        assert "ours are" in str(caught.value.hint)
        assert "s3cr3t" not in str(caught.value)


ALIASES = {
    "s3.endpoint": ("endpoint", "endpoint_url", "endpoint_url_s3"),
    "fs.s3a.endpoint": ("endpoint", "endpoint_url", "endpoint_url_s3"),
    "s3.access-key-id": ("access_key_id",),
    "spark.hadoop.fs.s3a.secret.key": ("secret_access_key",),
    "client.session-token": ("session_token",),
    "s3.region": ("region", "default_region"),
    "s3.anonymous": ("skip_signature",),
    "fs.s3a.path.style.access": ("virtual_hosted_style_request",),
    "adls.account-name": ("account_name", "storage_account_name"),
    "adls.account-key": ("account_key", "storage_account_key", "access_key"),
    "fs.azure.account.key.a.dfs.core.windows.net": ("account_key", "storage_account_key"),
    "adls.sas-token": ("sas_token", "storage_sas_token", "sas_key"),
    "adls.tenant-id": ("tenant_id", "storage_tenant_id", "authority_id"),
    "adls.client-id": ("client_id", "storage_client_id"),
}


@pytest.mark.parametrize("theirs", ALIASES)
def test_ours_count_for_more_by_whichever_name(theirs: str):
    """Else a store that was not named is written to, or by keys that were not."""
    own = "azure_" if "adls" in theirs or "azure" in theirs else "aws_"
    alone = dict(in_our_names(StoreOptions.of({theirs: "theirs"}), own))
    for name in ALIASES[theirs]:
        for ours in (name, f"{own}{name}", f"{own}{name}".upper()):
            given = StoreOptions.of({ours: "ours", theirs: "theirs", "other_region": "x"})
            found = dict(in_our_names(given, own))
            assert found == {ours.lower(): "ours", "other_region": "x"}, ours
    assert len(alone) == 1


def test_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = d\naws_secret_access_key = ds\n"
        "[work]\naws_access_key_id = w\naws_secret_access_key = w%s\naws_session_token = t\n"
    )
    (tmp_path / "config").write_text(
        "[profile work]\nregion = eu-1\nendpoint_url = https://store.example\n"
        "[profile role]\nrole_arn = arn:x\nsource_profile = work\n"
        "[profile sso]\nsso_session = x\n[profile process]\ncredential_process = x\n[profile place]\nregion = eu-2\n"
    )
    none = StoreOptions()
    assert dict(with_profile(none)) == {"aws_access_key_id": "d", "aws_secret_access_key": "ds"}
    work = {
        "aws_access_key_id": "w",
        "aws_secret_access_key": "w%s",
        "aws_session_token": "t",
        "aws_region": "eu-1",
        "aws_endpoint_url": "https://store.example",
    }
    assert dict(with_profile(StoreOptions.of({"aws_profile": "work"}))) == work
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert dict(with_profile(none)) == work
    given = StoreOptions.of({"aws_region": "us-9", "aws_endpoint_url": "https://mine"})
    assert dict(with_profile(given)) == {**work, **dict(given)}, "the handle counts for more"
    for variable in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.setenv(variable, "us-8")
        assert "aws_region" not in with_profile(none), "so does the environment"
        monkeypatch.delenv(variable)
    for variable in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(variable, "https://mine")
        assert "aws_endpoint_url" not in with_profile(none)
        monkeypatch.delenv(variable)
    for name in ("region", "default_region", "endpoint", "endpoint_url"):
        assert dict(with_profile(StoreOptions.of({name: "mine"}))) == {
            key: value for key, value in {**work, name: "mine"}.items() if key == name or name[-6:] not in key
        }, "by whichever name"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "e")
    assert with_profile(none) == none
    assert with_profile(StoreOptions.of({"profile": "work"}))["aws_access_key_id"] == "w", "asked for by the handle"
    for said in ("aws_access_key_id", "access_key_id", "aws_skip_signature", "skip_signature"):
        own = StoreOptions.of({said: "k"})
        assert with_profile(own) == own
        monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
        assert with_profile(own) == own, "nor where AWS_PROFILE names one"
        assert with_profile(StoreOptions.of({said: "k", "profile": "work"})) == own, "nor where the handle does"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "e")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    for name, asked in (("role", "role_arn"), ("sso", "sso_session"), ("process", "credential_process")):
        monkeypatch.setenv("AWS_PROFILE", name)
        with pytest.raises(OptionError, match=f"{name!r} gets its keys by {asked}") as refused:
            open_storage("s3://b/t")
        assert f"aws configure export-credentials --profile {name}" in str(refused.value.hint)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(OptionError, match="no profile 'nobody'") as refused:
        open_storage("s3://b/t")
    assert "default, place, process, role, sso, work" in str(refused.value.hint)
    monkeypatch.setenv("AWS_PROFILE", "place")
    assert dict(with_profile(none)) == {"aws_region": "eu-2"}
    (tmp_path / "credentials").write_text("no section\n")
    with pytest.raises(OptionError, match="credentials cannot be read"):
        with_profile(none)


def test_a_profile_reaches_a_store(tmp_path: Path, moto_endpoint: str):
    (tmp_path / "config").write_text(
        f"[default]\naws_access_key_id = d\naws_secret_access_key = s\nregion = us-east-1\nendpoint_url = {moto_endpoint}\n"
    )
    store = open_storage("s3://lakeindex-contract/profile")
    store.write("x", b"1")
    assert store.read("x") == b"1"
