"""A language model of next to nothing: how often each byte follows another (a bigram model of bytes).

For comparisons that must go wrong. Its tokens are bytes, so its perplexity per token is small whatever it knows, about
10 on English prose; per byte of text it is far worse than any trained model.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

BYTES = 256
PRIOR = 0.05  # added to every count, so that a pair never seen has a chance (Lidstone); some 250 times 0.05 per row


def fit_byte_pairs(texts: Iterable[str]) -> NDArray[np.float64]:
    """log P(next byte | byte), (256, 256) in nats, from UTF-8 texts. Raises ValueError where there are no pairs."""
    counts = np.full((BYTES, BYTES), PRIOR)
    pairs = 0
    for text in texts:
        data = np.frombuffer(text.encode(), dtype=np.uint8)
        np.add.at(counts, (data[:-1], data[1:]), 1)
        pairs += max(0, len(data) - 1)
    if pairs == 0:
        raise ValueError("no two bytes to learn from")
    table: NDArray[np.float64] = np.log(counts / counts.sum(axis=1, keepdims=True))
    return table


def byte_losses(table: NDArray[np.float64], text: str) -> NDArray[np.float64]:
    """Loss in nats of every byte of the text but the first, given the byte before it."""
    data = np.frombuffer(text.encode(), dtype=np.uint8)
    return -table[data[:-1], data[1:]]
