"""HFile, version 3: sorted keys and values in blocks, an index of the blocks, facts about the file, a trailer.

The metadata table's base files and the data blocks of its logs are HFiles. Hudi 0.15 writes them through HBase, Hudi
1.x itself; both are read, and what is written has the form of the latter.

::

    file    = data blocks (and, in large files of HBase, leaf and Bloom blocks between them), meta blocks,
              root data index, meta index, file info, trailer
    block   = magic (8), int32 bytes behind the header, int32 decoded bytes, int64 offset of the block before of its
              kind, int8 checksum type, int32 bytes per checksum, int32 bytes of header and encoded content;
              the content, encoded; 4 bytes of checksum for each started piece
    trailer = the last 4,096 bytes: magic, protobuf of its facts, zeros, int32 version

All integers are big-endian. Source: ``HFileWriterImpl``, ``HFileReaderImpl`` and ``HFile.proto`` of Hudi 1.2; HBase's
book, "HFile format"; compared with files of both.
"""

from lakeindex.format.hfile.reading import HFile
from lakeindex.format.hfile.writing import format_hfile, merge_hfile

__all__ = ["HFile", "format_hfile", "merge_hfile"]
