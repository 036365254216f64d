"""What the history says of files."""

import uuid

from tests.builders import Row, batch_of, make_table


def test_new_files_and_rewritten_ones_are_told_apart():
    table = make_table(f"memory://{uuid.uuid4()}")
    for batch in ([Row("a", "x", 1, "1")], [Row("a", "x", 2, "2"), Row("b", "y", 2, "2"), Row("c", "z", 2, "2")]):
        table.upsert(batch_of(batch), checkpoints=f"memory://{uuid.uuid4()}")
    newest, first = table.history()
    assert (first.files_created, first.files_rewritten, first.inserts, first.updates) == (1, 0, 1, 0)
    assert (newest.files_created, newest.files_rewritten, newest.inserts, newest.updates) == (2, 1, 2, 1)
