"""The reached context, held against arithmetic. No GPU: a fake request with a byte count, and a card played on a CPU.

The played card counts every live tensor (lib/live_bytes.py) and refuses at its limit, so what runs on it is the real
instrument: a real copy of a model, real caches, real decode steps, real failures halfway through a pass.
"""

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.budget import resident_tokens
from lib.live_bytes import LiveBytes, peak_of
from lib.reached_context import CachedRequest, ReachedContext, fits, limited_to, longest, reached_context, step_bytes

DEVICE = torch.device("cuda")
TOTAL = 2**40  # of the played device, far above any limit
LAYERS, HEADS, HEAD_DIM, FP16 = 3, 4, 16, 2
PER_TOKEN = 2 * LAYERS * HEADS * HEAD_DIM * FP16
PER_TENSOR_TOKEN = PER_TOKEN // (2 * LAYERS)  # one layer's keys


class CountedRequest:
    """Room in bytes, a price per token, and what a step needs on top for a while."""

    def __init__(self, room: int, per_token: int, step: Callable[[int], int] = lambda _: 0) -> None:
        self.room, self.per_token, self.needed = room, per_token, step
        self.tokens = self.probes = 0

    def hold(self, tokens: int) -> None:
        self.tokens, self.probes = tokens, self.probes + 1
        self._ask(0)

    def step(self) -> None:
        self._ask(self.needed(self.tokens))

    def release(self) -> None:
        self.tokens = 0

    def _ask(self, more: int) -> None:
        if self.tokens * self.per_token + more > self.room:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {more} bytes.")


@pytest.mark.parametrize("room", [0, 99, 100, 12_345, 5_600_000_000])
@pytest.mark.parametrize("guess_off_by", [-(10**6), -1, 0, 1, 10**6])
def test_reached_equals_the_sum_where_nothing_else_is_needed(room: int, guess_off_by: int) -> None:
    predicted = resident_tokens(room, 0, 100)
    assert longest(CountedRequest(room, 100), max(0, predicted + guess_off_by)) == predicted


@pytest.mark.parametrize("tokens_for_the_step", [1, 7, 500])
def test_a_step_that_needs_room_takes_exactly_its_tokens(tokens_for_the_step: int) -> None:
    request = CountedRequest(100_000, 100, lambda _: 100 * tokens_for_the_step)
    assert longest(request, 1000) == 1000 - tokens_for_the_step


def test_a_step_that_copies_one_layers_keys_takes_one_share_of_them() -> None:
    """24 layers of 48 tensors: 49 must fit where the sum counts 48."""
    per_token, tensors = 12_288, 48
    request = CountedRequest(49 * 256 * 1000, per_token, lambda n: n * per_token // tensors)
    assert longest(request, 1020) == 1000


def test_rejects_holding_without_stepping() -> None:
    """The wrong variant: what can be held is not what can be gone on with."""
    request = CountedRequest(100_000, 100, lambda _: 5000)
    request.step = lambda: None  # type: ignore[method-assign]
    assert longest(request, 1000) == 1000


def test_no_room_at_all_is_zero_tokens() -> None:
    assert longest(CountedRequest(10, 100, lambda _: 50), 0) == 0


def test_a_good_guess_takes_as_many_probes_as_the_tokens_have_bits() -> None:
    request = CountedRequest(487_000 * 100, 100, lambda n: 2 * n)
    longest(request, 487_000)
    assert request.probes <= 1 + (487_000).bit_length()


def test_other_errors_pass_and_give_everything_back() -> None:
    request = CountedRequest(1000, 100)

    def broken() -> None:
        raise RuntimeError("shapes do not match")

    request.step = broken  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="shapes"):
        longest(request, 5)
    assert request.tokens == 0


class KeepsItsError(CountedRequest):
    """A step that holds something, and its own exception: neither dies by itself while the exception is handled."""

    def __init__(self) -> None:
        super().__init__(1000, 100)
        self.held: list[weakref.ref[torch.Tensor]] = []
        self.alive_at_release: list[bool] = []

    def step(self) -> None:
        mine = torch.zeros(1)
        self.held.append(weakref.ref(mine))
        try:
            self._ask(10_000)
        except torch.OutOfMemoryError as error:
            kept = error  # frame and exception hold each other from here on
            raise kept from None

    def release(self) -> None:
        self.alive_at_release += [reference() is not None for reference in self.held]


def test_nothing_of_a_failed_pass_is_alive_when_memory_is_given_back() -> None:
    request = KeepsItsError()
    assert not fits(request, 5)
    assert request.alive_at_release == [False]


def test_predictions_against_hand_made_sums() -> None:
    found = ReachedContext(10_000, 2000, 100, 75, 500, 0)
    assert (found.predicted(), found.predicted(1500), found.predicted(9000)) == (80, 65, 0)


class PlayedCard(LiveBytes):
    """A card of TOTAL bytes whose allocator hands out no more than its fraction; it plays torch.cuda as well."""

    def __init__(self, free: int = TOTAL) -> None:
        super().__init__()
        self.free, self.limit = free, TOTAL
        self.fractions: list[float] = []
        self.refused = 0

    def __torch_dispatch__(self, *call: object, **named: object) -> object:
        result = super().__torch_dispatch__(*call, **named)
        if self._current > self.limit:
            self.refused += 1
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate more than {self.limit} bytes.")
        return result

    def mem_get_info(self, device: torch.device) -> tuple[int, int]:
        return self.free, TOTAL

    def memory_allocated(self, device: torch.device) -> int:
        return self._current

    def memory_reserved(self, device: torch.device) -> int:
        return self._current

    def max_memory_allocated(self, device: torch.device) -> int:
        return self._peak_bytes

    def reset_peak_memory_stats(self, device: torch.device) -> None:
        self._peak_bytes = self._current

    def set_per_process_memory_fraction(self, fraction: float, device: torch.device) -> None:
        assert isinstance(fraction, float) and 0 <= fraction <= 1  # torch refuses anything else
        self.fractions.append(fraction)
        self.limit = round(fraction * TOTAL)

    def synchronize(self, device: torch.device) -> None:
        pass

    def empty_cache(self) -> None:
        pass


@pytest.fixture(scope="module", autouse=True)
def few_objects_to_collect() -> Iterator[None]:
    """Everything imported so far is no garbage: a collection takes milliseconds instead of a third of a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    torch.manual_seed(0)
    heads = {"num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": HEAD_DIM}
    config = Qwen2Config(vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=LAYERS, **heads)
    return Qwen2ForCausalLM(config).eval()


@pytest.fixture
def card() -> Iterator[PlayedCard]:
    gc.collect()
    with PlayedCard() as played:
        yield played


def parameter_bytes(model: PreTrainedModel) -> int:
    return sum(p.numel() * FP16 for p in model.parameters())


@pytest.mark.parametrize("tokens", [200, 2000])
def test_a_real_model_on_a_played_card_against_the_arithmetic(
    model: PreTrainedModel, card: PlayedCard, tokens: int
) -> None:
    """All keys and values once, one layer's keys twice, and what a step on one token needs: that must be the room."""
    step = small_step(model, card)
    weights = parameter_bytes(model)
    room = weights + tokens * (PER_TOKEN + PER_TENSOR_TOKEN) + step
    found = reached_context(model, torch.float16, room, card)
    assert (found.room_bytes, found.weights_bytes, found.bytes_per_token) == (room, weights, PER_TOKEN)
    # the step's own bytes are those of a context of one token, its keys included: at most all of them too many
    assert 0 <= found.tokens - tokens <= step / (PER_TOKEN + PER_TENSOR_TOKEN)
    assert found.predicted() > found.tokens and card.refused > 0


def test_what_was_on_the_device_before_is_not_charged_to_the_card(model: PreTrainedModel, card: PlayedCard) -> None:
    room = parameter_bytes(model) + 200 * PER_TOKEN
    alone = reached_context(model, torch.float16, room, card)
    neighbour = torch.zeros(10_000)
    beside = reached_context(model, torch.float16, room, card)
    # the fraction of a device is a float: its product with the total is exact to far less than a byte here
    assert beside.tokens == alone.tokens and neighbour.numel()


def test_a_device_with_less_free_memory_than_the_card_bounds_the_room(model: PreTrainedModel) -> None:
    free = parameter_bytes(model) + 500 * PER_TOKEN
    with PlayedCard(free) as card:
        found = reached_context(model, torch.float16, 2**33, card)
    assert found.room_bytes == free and found.predicted() == 500 and 0 < found.tokens < 500


def test_the_fraction_is_set_for_the_card_and_restored(model: PreTrainedModel, card: PlayedCard) -> None:
    room = parameter_bytes(model) + 300 * PER_TOKEN
    reached_context(model, torch.float16, room, card)
    assert card.fractions == [room / TOTAL, 1.0]
    assert card.memory_allocated(DEVICE) == 0


def test_no_room_for_the_weights_raises_and_restores(model: PreTrainedModel, card: PlayedCard) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        reached_context(model, torch.float16, parameter_bytes(model) // 2, card)
    assert card.fractions[-1] == 1.0


def test_the_limit_is_lifted_also_after_an_error(card: PlayedCard) -> None:
    with pytest.raises(ZeroDivisionError), limited_to(1000, DEVICE, card):
        raise ZeroDivisionError
    with limited_to(2 * TOTAL, DEVICE, card):  # a card smaller than the limit
        pass
    assert card.fractions == [1000 / TOTAL, 1.0, 1.0, 1.0]


def test_the_model_itself_is_left_as_it_was(model: PreTrainedModel, card: PlayedCard) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    versions = [p._version for p in model.parameters()]
    reached_context(model, torch.float16, parameter_bytes(model) + 300 * PER_TOKEN, card)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert versions == [p._version for p in model.parameters()]


def test_filling_a_cache_needs_no_more_than_a_step_on_it(model: PreTrainedModel) -> None:
    """Or the filling, which no generation does, would be what runs out of memory."""
    request = CachedRequest(model, PlayedCard())
    tokens = 2000
    filling = peak_of(lambda: request.hold(tokens))[1].live_bytes
    resident = tokens * PER_TOKEN * 2  # the model is fp32 here
    assert filling <= resident + peak_of(request.step)[1].live_bytes


def test_step_bytes_against_the_copy_of_one_layers_keys(model: PreTrainedModel, card: PlayedCard) -> None:
    """Between contexts the step grows by one fp32 tensor per token, and by nothing else."""
    request = CachedRequest(model, card)
    short, long = (step_bytes(request, n, DEVICE, card) for n in (1000, 3000))
    assert long - short == 2000 * PER_TENSOR_TOKEN * 2
    del request
    assert card.memory_allocated(DEVICE) == 0


def test_a_step_needs_a_cache(model: PreTrainedModel) -> None:
    with pytest.raises(RuntimeError, match="stand on"):
        CachedRequest(model, PlayedCard()).step()


def small_step(model: PreTrainedModel, card: PlayedCard) -> int:
    """Peak of a step on one cached token, in fp16."""
    from lib.slim_models import cast_copy

    twin = cast_copy(model, torch.float16)
    return step_bytes(CachedRequest(twin, card), 1, DEVICE, card)


@pytest.mark.gpu
def test_a_real_card_gives_up_and_is_usable_afterwards(model: PreTrainedModel) -> None:
    """64 MiB of a real device: the limit is felt, and lifted."""
    room = 2**26
    found = reached_context(model.to(DEVICE), torch.float16, room)
    model.to("cpu")
    assert 0 < found.tokens < found.predicted()
    assert torch.ones(2 * room, device=DEVICE).sum() == 2 * room
