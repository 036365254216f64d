"""Logs of the archived timeline, as Hudi's archiver writes them."""

from collections.abc import Iterable, Mapping, Sequence

from lakeindex.commit.services.archive import SCHEMA
from lakeindex.storage.port import Storage
from lakeindex.timeline.archived_timeline import format_avro_block

ARCHIVE = ".hoodie/archived"


def put_log(
    storage: Storage,
    commits: Iterable[str],
    *,
    rolled_back: Sequence[tuple[str, str]] = (),
    files: Mapping[str, Sequence[str]] | None = None,
    number: int = 1,
    folder: str = ARCHIVE,
) -> None:
    """Write a log.

    Args:
        storage: the table's folder.
        commits: times of completed commits.
        rolled_back: (time of the rollback, what it rolled back).
        files: partition path -> URLs of files that each of them names.
        number: the log's.
        folder: of the archive.
    """
    entries = [_entry(time, "commit", {"hoodieCommitMetadata": None}) for time in commits]
    for time, undone in rolled_back:
        metadata = {
            "startRollbackTime": time,
            "timeTakenInMillis": 1,
            "totalFilesDeleted": 0,
            "commitsRollback": [undone],
            "partitionMetadata": {
                path: {"partitionPath": path, "successDeleteFiles": list(urls), "failedDeleteFiles": []}
                for path, urls in (files or {}).items()
            },
            "instantsRollback": [{"commitTime": undone, "action": "commit"}],
        }
        entries.append(_entry(time, "rollback", {"hoodieRollbackMetadata": metadata}))
    storage.write(f"{folder}/.commits_.archive.{number}_1-0-1", format_avro_block(SCHEMA, entries))


def _entry(time: str, action: str, content: dict[str, object]) -> dict[str, object]:
    return {
        "commitTime": time,
        "actionType": action,
        "actionState": "COMPLETED",
        "version": None,
        "stateTransitionTime": time,
        **content,
    }
