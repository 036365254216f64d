"""Makes ``joda_texts.json``: what Joda-Time 2.14 reads of random texts by random patterns, in UTC; null: nothing.

To be run where PySpark is installed, whose jars have Joda-Time and whose packages py4j::

    python joda_texts.py > ../joda_texts.json
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import py4j
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

VALUES = {
    "y": ["2020", "2021", "2024", "1969", "0001", "99", "12020", "-5", "+2020", "1900"],
    "M": ["01", "1", "02", "2", "12", "13", "0", "012", "6"],
    "d": ["01", "1", "28", "29", "30", "31", "32", "0"],
    "D": ["1", "001", "060", "365", "366", "367", "0"],
    "E": ["Mon", "Monday", "tue", "SUN", "Sat", "Saturday", "Wedn"],
    "H": ["0", "00", "12", "23", "24", "7"],
    "k": ["0", "1", "12", "24", "25", "7"],
    "h": ["0", "01", "11", "12", "13"],
    "K": ["0", "00", "11", "12", "7"],
    "m": ["00", "0", "59", "60", "7"],
    "s": ["00", "0", "59", "60", "7"],
    "S": ["0", "1", "12", "123", "1234", "123456"],
    "a": ["AM", "pm", "PM", "a"],
    "Z": ["Z", "+01:00", "+0100", "-05", "+24:00", "-05:30", "+01:60", "UTC"],
}
NAMES = ["Jan", "feb", "FEBRUARY", "Mar", "December", "Sept"]
PIECES = "yyyy y YYYY MM M MMM MMMM dd d DDD D EEE EEEE HH H kk hh KK mm ss SSS S SSSSSS a Z".split()
LAST = ["", "-", " ", "/", "'T'"]


def main() -> None:
    jars = Path(py4j.__file__).parents[1] / "pyspark" / "jars"
    joda, of_py4j = (str(next(jars.glob(f"{name}*.jar"))) for name in ("joda-time", "py4j"))
    port = launch_gateway(classpath=joda, jarpath=of_py4j, die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    time: Any = gateway.jvm.org.joda.time
    chosen, rows = random.Random(2), {}
    while len(rows) < 500:
        pieces = chosen.sample(PIECES, chosen.randint(1, 6))
        letters = {piece[0].lower() if piece[0] == "Y" else piece[0] for piece in pieces}
        if len(letters) < len(pieces) or {"H", "k"} <= letters or {"h", "K"} <= letters:
            continue
        pieces.sort(key=lambda piece: piece[0] == "Z")  # Joda-Time takes more than an offset for one
        between = [chosen.choice(LAST[1:]) for _ in pieces[1:]] + [""]
        texts = [chosen.choice(NAMES if p[:3] == "MMM" else VALUES[p[0].replace("Y", "y")]) for p in pieces]
        pattern = "".join(p + sign for p, sign in zip(pieces, between, strict=True))
        text = "".join(t + sign.replace("'", "") for t, sign in zip(texts, between, strict=True))
        try:
            millis = time.format.DateTimeFormat.forPattern(pattern).withZone(time.DateTimeZone.UTC).parseMillis(text)
        except Py4JJavaError:
            millis = None
        if millis is not None or len(rows) % 3 == 0:
            rows[pattern, text] = millis
    print("[\n" + ",\n".join(json.dumps([*one, millis]) for one, millis in sorted(rows.items())) + "\n]")
    gateway.shutdown()


if __name__ == "__main__":
    main()
