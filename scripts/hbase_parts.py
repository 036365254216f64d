"""The parts of a standalone HBase, from package registries into ``.hbase/parts``. Standard library only.

``scripts/hbase/pom.xml`` says what is wanted; see :mod:`scripts.maven_jars`::

    python scripts/hbase_parts.py          # fetch what is missing
    python scripts/hbase_parts.py lock     # resolve the pom anew and write jars.lock (needs Maven)

One jar is made here, not fetched: see :func:`codec_alias`.
"""

from __future__ import annotations

import io
import os
import struct
import sys
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import maven_jars  # noqa: E402 - found through the line above, whoever imports this
from scripts.maven_jars import PartsError  # noqa: E402 - as above

RECIPE: Final = maven_jars.Recipe(
    "HBase", ROOT / "scripts" / "hbase", Path(os.environ.get("LAKEINDEX_HBASE_HOME", ROOT / ".hbase"))
)
ALIAS_JAR: Final = "hudi-codec-alias.jar"
JAVA: Final = range(11, 24)
"""Releases that HBase 2.6 with Hadoop 2.10 runs on: Java 24 took out Subject.getSubject, which Hadoop 2 calls first."""


def fetch() -> Path:
    """Every jar in one folder; returns it. Raises: PartsError."""
    alias = io.BytesIO()
    with zipfile.ZipFile(alias, "w") as jar:
        jar.writestr(zipfile.ZipInfo(f"{ALIAS_CLASS}.class"), codec_alias())
    return RECIPE.fetch({ALIAS_JAR: alias.getvalue()})


def java_home() -> Path:
    """A Java that HBase runs on. Raises: PartsError."""
    return maven_jars.java_home(JAVA)


CODEC: Final = "org/apache/hadoop/hbase/codec/KeyValueCodec"
ALIAS_CLASS: Final = f"org/apache/hudi/{CODEC}"


def codec_alias() -> bytes:
    """The class file of ``public class ALIAS_CLASS extends CODEC {}``, which needs no Java compiler this way.

    The bundles of Hudi 0.x hold HBase's client under names of their own and tell the server the name of the codec in
    its hello; a server that cannot load a class of this name closes the connection, which the client takes for a
    network error and repeats for minutes. With the alias on its class path the server can serve them.

    Layout: The Java Virtual Machine Specification, Java SE 8, chapter 4 (class file version 52).
    """
    texts = [ALIAS_CLASS, CODEC, "<init>", "()V", "Code"]  # constants 1 .. 5
    pool = b"".join(struct.pack(">BH", 1, len(text)) + text.encode() for text in texts)
    pool += struct.pack(">BH", 7, 1) + struct.pack(">BH", 7, 2)  # 6: this class, 7: its parent
    pool += struct.pack(">BHH", 12, 3, 4) + struct.pack(">BHH", 10, 7, 8)  # 8: <init>()V, 9: the parent's
    code = bytes([0x2A, 0xB7, 0x00, 0x09, 0xB1])  # aload_0, invokespecial #9, return
    body = struct.pack(">HHI", 1, 1, len(code)) + code + struct.pack(">HH", 0, 0)  # stack, locals; no handlers
    constructor = struct.pack(">HHHH", 0x0001, 3, 4, 1) + struct.pack(">HI", 5, len(body)) + body
    return b"".join(
        (
            struct.pack(">IHHH", 0xCAFEBABE, 0, 52, 10),
            pool,
            struct.pack(">HHHH", 0x0021, 6, 7, 0),  # public super, no interfaces
            struct.pack(">HH", 0, 1),  # no fields, one method
            constructor,
            struct.pack(">H", 0),  # no attributes
        )
    )


def main() -> int:
    try:
        if sys.argv[1:] == ["lock"]:
            RECIPE.lock()
        print(f"hbase: {sum(1 for _ in fetch().glob('*.jar'))} jars in {RECIPE.jars}")
    except PartsError as error:
        print(f"hbase: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
