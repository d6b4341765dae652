"""Read a GGUF file as a transformers model: checked tensors, dequantized to fp32, under transformers' names.

Sources: the GGUF specification (ggml), and llama.cpp's converter for the row order of rotary projections in the
"llama" architecture. Dequantization itself is the `gguf` package's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

ROTARY_INTERLEAVED = frozenset({"llama"})  # llama.cpp stores these q/k rows as (pair, half) instead of (half, pair)
EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
# Two quantizations of one matrix agree to a few percent; an untied head is unrelated to the embedding (cosine near 0).
SAME_MATRIX_COSINE = 0.9
COSINE_SAMPLE_ROWS = 512  # the first ones of the vocabulary


class DamagedGguf(ValueError):
    """The file is no whole GGUF: cut short, inconsistent, or with non-finite weights. The message names the file."""


class UnknownArchitecture(ValueError):
    """A GGUF of an architecture whose tensors cannot be named here."""


class _WithinFile(gguf.GGUFReader):
    """The package's reader, refusing to read past the end: its own would step through 2**61 absent elements."""

    def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> NDArray[Any]:
        if offset + int(count) * np.dtype(dtype).itemsize > len(self.data):
            raise ValueError("it says more than it holds")
        return np.asarray(super()._get(offset, dtype, count, override_order))


class GgufFile:
    """An opened GGUF whose every tensor lies inside the file. Raises DamagedGguf."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = _WithinFile(path)
            self.architecture = str(self._reader.fields["general.architecture"].contents())
            layers = self.num_layers()
        except Exception as error:  # the reader raises whatever its parsing runs into: all mean the same to a user
            raise DamagedGguf(f"{path.name}: not a whole GGUF file ({_first_line(error)})") from None
        self.tensors = {t.name: t for t in self._reader.tensors}
        self._check_extents()
        if not 0 <= layers <= len(self.tensors):  # layers are made one by one before a tensor is looked for
            raise DamagedGguf(f"{path.name}: {layers:,} blocks, and {len(self.tensors):,} tensors")

    def num_layers(self) -> int:
        """The number of transformer blocks that the header states, 0 where it states none."""
        found = self._reader.fields.get(f"{self.architecture}.block_count")
        return 0 if found is None else int(found.contents())

    def bits_per_weight(self) -> float:
        """Bits of storage per weight from the tensors' own types (scales included), not from the file's name."""
        return 8 * sum(t.n_bytes for t in self.tensors.values()) / sum(t.n_elements for t in self.tensors.values())

    def dequantized(self, name: str) -> NDArray[np.float32]:
        """One tensor in fp32, in numpy's order (out, in). Raises DamagedGguf on a non-finite weight."""
        tensor = self.tensors[name]
        weights = np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        if not np.isfinite(weights).all():
            raise DamagedGguf(f"{self.path.name}: tensor {name} holds a weight that is not a finite number")
        return weights

    def ties_embeddings(self) -> bool:
        """Whether the output head is the embedding matrix: absent, or a second quantization of the same numbers."""
        if OUTPUT not in self.tensors:
            return True
        head, embedding = (self._sample(name) for name in (OUTPUT, EMBEDDING))
        if head.shape != embedding.shape:
            return False
        norms = float(np.linalg.norm(head) * np.linalg.norm(embedding))
        return float(np.vdot(head, embedding)) > SAME_MATRIX_COSINE * norms

    def finer_embedding(self) -> str:
        """The name of the embedding stored with more bits: the one to restore a tie from."""
        stored = [name for name in (EMBEDDING, OUTPUT) if name in self.tensors]
        return max(stored, key=lambda name: int(self.tensors[name].n_bytes))

    def _sample(self, name: str) -> NDArray[np.float32]:
        tensor = self.tensors[name]
        sample = gguf.quants.dequantize(tensor.data[:COSINE_SAMPLE_ROWS], tensor.tensor_type)
        return np.asarray(sample, dtype=np.float32)

    def _check_extents(self) -> None:
        size = self.path.stat().st_size
        for tensor in self.tensors.values():
            end = int(tensor.data_offset) + int(tensor.n_bytes)
            if end > size:
                ends = f"tensor {tensor.name} ends at {end:,}, the file at {size:,}"
                raise DamagedGguf(f"{self.path.name}: cut short: {ends}")


def state_dict(
    file: GgufFile,
    parameters: dict[str, torch.Size],
    config: Any,
    track: Callable[[Iterable[str]], Iterable[str]] = iter,
) -> dict[str, torch.Tensor]:
    """fp32 weights under transformers' names.

    `parameters`: the names and shapes that the architecture wants (a meta model's). With tied embeddings the head is
    left out and the embedding comes from the finer of the two stored copies. `track` wraps the names for progress.
    Raises DamagedGguf when a tensor is missing or has another shape, UnknownArchitecture when it cannot be named.
    """
    wanted = [name for name in parameters if not (config.tie_word_embeddings and name == "lm_head.weight")]
    stored_names = dict(_stored_names(file, wanted))
    if config.tie_word_embeddings:
        stored_names["model.embed_tokens.weight"] = file.finer_embedding()
    return {name: _tensor(file, stored_names[name], name, parameters[name], config) for name in track(wanted)}


def _stored_names(file: GgufFile, wanted: Iterable[str]) -> Iterator[tuple[str, str]]:
    architectures = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}
    if file.architecture not in architectures:
        raise UnknownArchitecture(f"{file.path.name}: architecture {file.architecture!r} is unknown to gguf")
    names = gguf.get_tensor_name_map(architectures[file.architecture], file.num_layers())
    for name in wanted:
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if stored not in file.tensors:
            raise DamagedGguf(f"{file.path.name}: no tensor for {name}")
        yield name, stored


def _tensor(file: GgufFile, stored: str, name: str, shape: torch.Size, config: Any) -> torch.Tensor:
    weights = file.dequantized(stored)
    if file.architecture in ROTARY_INTERLEAVED and ("q_proj" in name or "k_proj" in name):
        heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
        weights = halves_from_pairs(weights, heads)
    if tuple(weights.shape) != tuple(shape):
        raise DamagedGguf(f"{file.path.name}: tensor {stored} is {weights.shape}, {name} wants {tuple(shape)}")
    return torch.from_numpy(np.ascontiguousarray(weights))


def halves_from_pairs(weights: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo llama.cpp's reordering of rotary rows: (head, d/2, 2) pairs back to (head, 2, d/2) halves."""
    rows = weights.shape[0] // heads // 2
    return weights.reshape(heads, rows, 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
