"""Shared Hypothesis strategies."""

from __future__ import annotations

import os

from hypothesis import strategies as st

ALL_EXAMPLES = os.environ.get("HYPOTHESIS_PROFILE") in {"ci", "explore"}


def examples(number: int) -> int:
    """Of a property that takes long: all in ``.ci/run``, the first third in ``make test``."""
    return number if ALL_EXAMPLES else -(-number // 3)


# characters where orders and encodings go wrong: one to four bytes, both sides of the surrogates, U+E000 and up
_ODD = "\x00\x01 ,:/'\x7f\x80éß߿ࠀ中\ud7ff\ue000\uf8ff\uff5e\uffff\U00010000\U0001f600\U0010ffff"

key_texts: st.SearchStrategy[str] = st.text(
    st.one_of(st.sampled_from("ab01" + _ODD), st.characters(exclude_categories=("Cs",))), min_size=1, max_size=12
)
"""Record keys: never empty, any character but lone surrogates, which UTF-8 cannot hold."""

plain_key_texts: st.SearchStrategy[str] = st.text("ab0-", min_size=1, max_size=4)
"""Record keys that collide and neighbour each other often."""

any_texts: st.SearchStrategy[str] = st.one_of(st.just(""), key_texts)
"""Texts that may be empty."""
