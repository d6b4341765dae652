"""Parts of the page that are put in place later, as text that can stand in a `<script>` element of data."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence

LEVEL = 6  # of gzip: 9 takes twice as long for a hundredth less


def packed(langs: Sequence[str], pages: Mapping[str, object], cards: Sequence[object]) -> str:
    """One JSON object: the languages in order, the other languages' pages, and the cards of each section.

    What is packed is base64, whose alphabet has neither quotes nor angle brackets, so that nothing recorded can end
    the element that holds it.
    """
    return json.dumps({"langs": list(langs), "pages": _pack(pages), "cards": [_pack(part) for part in cards]})


def unpacked(pack: str) -> object:
    """What was packed, as page.js reads it."""
    return json.loads(gzip.decompress(base64.b64decode(pack)))


def _pack(part: object) -> str:
    text = json.dumps(part, ensure_ascii=False).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(text, LEVEL, mtime=0)).decode("ascii")
