"""Hudi's lock providers: which are taken part in, and what of their settings fits together."""

from __future__ import annotations

from typing import Final

from lakeindex.errors import OptionError
from lakeindex.options.types import ConcurrencyMode, LockProvider, WriteConfig

PROVIDER_OPTION: Final = "hoodie.write.lock.provider"
MODE_OPTION: Final = "hoodie.write.concurrency.mode"
PATH_OPTION: Final = "hoodie.write.lock.filesystem.path"
VALIDITY_OPTION: Final = "hoodie.write.lock.storage.validity.timeout.secs"
RENEWAL_OPTION: Final = "hoodie.write.lock.storage.renew.interval.secs"

REFUSED_PROVIDERS: Final[dict[str, str]] = {
    "ZookeeperBasedLockProvider": "it needs a ZooKeeper",
    "ZookeeperBasedImplicitBasePathLockProvider": "it needs a ZooKeeper",
    "HiveMetastoreBasedLockProvider": "it needs a Hive metastore",
    "DynamoDBBasedLockProvider": "it needs a DynamoDB",
    "DynamoDBBasedImplicitPartitionKeyLockProvider": "it needs a DynamoDB",
    "InProcessLockProvider": "it locks one process of Java",
    "NoopLockProvider": "it locks nothing",
}
"""Hudi's other providers by the last part of their class, and why there is no taking part in them."""

_RENEWALS: Final = 10


def lock_provider(text: str) -> LockProvider:
    """A provider by its Java class. Raises: OptionError: one of Hudi's that is not taken part in."""
    name = text.strip()
    if name in tuple(LockProvider):
        return LockProvider(name)
    why = REFUSED_PROVIDERS.get(name.rpartition(".")[2])
    if why is None:
        raise ValueError(text)
    raise OptionError(
        f"option {PROVIDER_OPTION} cannot be {name!r}: {why}, and lakeindex takes no part in it",
        culprit=PROVIDER_OPTION,
        hint=f"valid: {' | '.join(LockProvider)}, in Hudi's writers, too",
    )


def check_locks(config: WriteConfig) -> None:
    """Settings that contradict each other. Raises: OptionError."""
    provider, mode = config.lock_provider, config.concurrency_mode
    if provider is None and mode is ConcurrencyMode.OPTIMISTIC:
        raise OptionError(
            f"option {MODE_OPTION}={mode} needs a lock",
            culprit=MODE_OPTION,
            hint=f"give {PROVIDER_OPTION}, the same as Hudi's writers: {' | '.join(LockProvider)}",
        )
    if provider is not None and mode is ConcurrencyMode.SINGLE_WRITER:
        raise OptionError(
            f"option {MODE_OPTION}={mode} contradicts {PROVIDER_OPTION}: Hudi then takes no lock",
            culprit=MODE_OPTION,
            hint=f"leave one of the two out, or give {ConcurrencyMode.OPTIMISTIC}",
        )
    if config.lock_path is not None and provider is not LockProvider.FILE_SYSTEM:
        raise OptionError(
            f"option {PATH_OPTION} has no meaning without {PROVIDER_OPTION}={LockProvider.FILE_SYSTEM}",
            culprit=PATH_OPTION,
            hint="give both, as in Hudi's writers",
        )
    if config.lock_validity_seconds < _RENEWALS * config.lock_renew_seconds:
        raise OptionError(
            f"option {VALIDITY_OPTION}={config.lock_validity_seconds} is less than {_RENEWALS} times "
            f"{RENEWAL_OPTION}={config.lock_renew_seconds}",
            culprit=VALIDITY_OPTION,
            hint="Hudi refuses that, too: raise the one or lower the other",
        )
