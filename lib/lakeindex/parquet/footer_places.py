"""Places in the arrays that a walk over a footer fills: numbers of a column chunk, and of the file."""

from typing import Final

# what is kept of a chunk; *_AT and *_END are places in the footer
SIZE, DATA, DICTIONARY, MIN_AT, MIN_BYTES, MAX_AT, MAX_BYTES = 0, 1, 2, 3, 4, 5, 6
START, END, FILE_OFFSET_AT, FILE_OFFSET_END, DATA_AT, DATA_END, DICTIONARY_AT, DICTIONARY_END = range(7, 15)
FULL_SIZE, MORE = 15, 16
STATISTICS_AT, STATISTICS_END, NULLS = 17, 18, 19
NUMBERS: Final = 20
# what is kept of the file; entries are its key/values, which it need not have
SCHEMA_AT, SCHEMA_END, ROWS_AT, ROWS_END, GROUPS_AT, GROUPS_END, ENTRIES_AT, ENTRIES_END = range(8)
NEEDED_PLACES: Final = 6
PLACES: Final = 8
