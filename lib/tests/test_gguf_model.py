"""The GGUF reader held against the transformers model a file was written from, and against every way to damage one."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib.gguf_model import DamagedGguf, GgufFile, UnknownArchitecture, halves_from_pairs, state_dict
from lib.tests.tiny_gguf import KINDS, pairs_from_halves, tiny_model, write_gguf

IDS = torch.arange(20).reshape(1, -1)


def loaded_logits(path, model, kind):
    model_class = KINDS[kind][1]
    file = GgufFile(path)
    twin = model_class(model.config).eval()
    shapes = {name: tensor.shape for name, tensor in twin.state_dict().items()}
    twin.load_state_dict(state_dict(file, shapes, model.config), strict=False)
    with torch.no_grad():
        return twin(IDS).logits


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("tied", [True, False])
def test_logits_against_the_transformers_model_it_was_written_from(tmp_path, kind, tied):
    model = tiny_model(kind, tied)
    path = write_gguf(model, tmp_path / "tiny.gguf", kind)
    with torch.no_grad():
        assert torch.equal(loaded_logits(path, model, kind), model(IDS).logits)
    assert GgufFile(path).ties_embeddings() is tied


def test_forgetting_the_rotary_row_order_is_seen(tmp_path):
    """The wrong variant: a llama file whose q/k rows were never permuted must not give the model's logits."""
    model = tiny_model("llama")
    path = write_gguf(model, tmp_path / "tiny.gguf", "llama", permute=False)
    with torch.no_grad():
        assert not torch.allclose(loaded_logits(path, model, "llama"), model(IDS).logits, atol=1e-3)


def test_row_order_is_the_inverse_of_llama_cpps():
    rows = np.arange(24 * 3, dtype=np.float32).reshape(24, 3)
    assert np.array_equal(halves_from_pairs(pairs_from_halves(rows, 4), 4), rows)
    assert not np.array_equal(pairs_from_halves(pairs_from_halves(rows, 4), 4), rows)


def test_a_tie_that_the_file_undid_is_restored_from_the_finer_copy(tmp_path):
    model = tiny_model()
    noisy = (model.lm_head.weight.detach() * 1.01).half().numpy()
    file = GgufFile(write_gguf(model, tmp_path / "tiny.gguf", second_head=noisy))
    assert file.ties_embeddings() and file.finer_embedding() == "token_embd.weight"
    unrelated = np.random.default_rng(0).normal(size=noisy.shape).astype(np.float16)
    assert not GgufFile(write_gguf(model, tmp_path / "other.gguf", second_head=unrelated)).ties_embeddings()


def test_bits_per_weight_come_from_the_tensors(tmp_path):
    assert GgufFile(write_gguf(tiny_model(), tmp_path / "Q4_K_M.gguf")).bits_per_weight() == 32


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.3, 0.7, 0.999])
def test_a_file_cut_short_anywhere_is_one_line_with_its_name(tmp_path, share):
    path = write_gguf(tiny_model(), tmp_path / "tiny.gguf")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(DamagedGguf, match=r"tiny\.gguf") as caught:
        GgufFile(path)
    assert "\n" not in str(caught.value)


def test_a_weight_that_is_not_finite_is_damage(tmp_path):
    model = tiny_model()
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[3, 4] = float("nan")
    file = GgufFile(write_gguf(model, tmp_path / "tiny.gguf"))
    with pytest.raises(DamagedGguf, match=r"blk\.1\.ffn_down\.weight"):
        file.dequantized("blk.1.ffn_down.weight")


def test_a_missing_tensor_and_a_foreign_shape_are_named(tmp_path):
    model = tiny_model()
    file = GgufFile(write_gguf(model, tmp_path / "tiny.gguf"))
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    with pytest.raises(DamagedGguf, match="down_proj"):
        state_dict(file, shapes | {"model.layers.0.mlp.down_proj.weight": torch.Size([1, 2])}, model.config)
    del file.tensors["blk.1.attn_q.weight"]
    with pytest.raises(DamagedGguf, match=r"no tensor for model\.layers\.1\.self_attn\.q_proj\.weight"):
        state_dict(file, shapes, model.config)


def test_an_unknown_architecture_is_named(tmp_path):
    file = GgufFile(write_gguf(tiny_model(), tmp_path / "tiny.gguf"))
    file.architecture = "perceptron"
    with pytest.raises(UnknownArchitecture, match="perceptron"):
        state_dict(file, {"x": torch.Size([1])}, tiny_model().config)


def test_a_tensor_may_end_where_the_file_ends_and_no_later(tmp_path):
    """gguf's reader of today finds most of these first; one that maps the file lazily would not."""
    file = GgufFile(write_gguf(tiny_model(), tmp_path / "tiny.gguf"))
    size = file.path.stat().st_size
    file.tensors = {"x": SimpleNamespace(name="x", data_offset=size - 9, n_bytes=9)}
    file._check_extents()
    file.tensors["x"].n_bytes = 10
    with pytest.raises(DamagedGguf, match=f"ends at {size + 1:,}"):
        file._check_extents()
