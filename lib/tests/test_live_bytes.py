"""The tracker, held against programs whose peak is known, and against the CPU allocator itself (torch's profiler)."""

import copy
import gc
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from transformers import PreTrainedModel, Qwen2Config
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.live_bytes import LiveBytes, Peak, allocator_peak_bytes, peak_of

KILO = 1000
MATRIX = KILO * KILO * 4  # bytes of a float32 KILO x KILO tensor
SCALAR_SLACK = 256  # the allocator also holds the few bytes of Python numbers turned into tensors


def matrix() -> Tensor:
    return torch.ones(KILO, KILO)


def peak_bytes(program: Callable[[], object]) -> int:
    return peak_of(program)[1].live_bytes


def allocator_peak(program: Callable[[], object]) -> int:
    """Highest running sum of what the CPU allocator handed out and took back."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recording:
        result = program()
        del result
    events = [e for e in recording.profiler.kineto_results.events() if e.name() == "[memory]"]
    running = highest = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        running += event.nbytes()
        highest = max(highest, running)
    return highest


def chain() -> Tensor:
    a = matrix()
    b = a * 2  # a and b
    del a
    c = b @ b  # b and c
    del b
    return c[:10] + 1  # c and 10 rows


def views_and_in_place() -> Tensor:
    a = matrix()
    views = [a.t(), a[3:], a.view(-1), a.expand(2, KILO, KILO)]
    a.mul_(2).add_(1)
    torch.add(a, 1, out=a)
    return views[0]


def transient() -> Tensor:
    return (matrix() + matrix() + matrix()).sum()  # two operands and their sum


def kept_by_a_graph() -> Tensor:
    weight = torch.zeros(KILO, KILO, requires_grad=True)  # 1
    return (matrix() * weight).exp().sin().sum()  # ones (for the weight), exp's result, its copy for sin


PROGRAMS = {chain: 2 * MATRIX, views_and_in_place: MATRIX, transient: 3 * MATRIX}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_peak_against_hand_made_programs(program: Callable[[], Tensor]) -> None:
    assert peak_bytes(program) - PROGRAMS[program] in range(10 * KILO * 4 + 1)


@pytest.mark.parametrize("program", [chain, views_and_in_place, transient, kept_by_a_graph], ids=lambda p: p.__name__)
def test_peak_against_the_allocator(program: Callable[[], Tensor]) -> None:
    assert abs(allocator_peak(program) - peak_bytes(program)) <= SCALAR_SLACK


def test_allocator_comparison_rejects_counting_every_output() -> None:
    """The wrong tracker that sums what operations return: views and freed tensors make it several times too much."""
    assert peak_of(chain)[1].allocated_bytes > allocator_peak(chain) + SCALAR_SLACK
    assert peak_of(transient)[1].allocated_bytes > allocator_peak(transient) + SCALAR_SLACK


def test_weights_and_inputs_are_the_baseline() -> None:
    weight = matrix()
    assert peak_bytes(weight.t) == 0
    assert peak_bytes(lambda: weight.mul_(1)) == 0
    assert peak_bytes(lambda: weight + 1) == MATRIX


def test_backward_frees_what_forward_kept() -> None:
    weight = torch.zeros(KILO, KILO, requires_grad=True)
    with LiveBytes() as tracker:
        loss = weight.exp().exp().sum()
        kept = tracker.peak().end_bytes
        loss.backward()
        weight.grad = None
        left = tracker.peak().end_bytes
    assert kept >= 2 * MATRIX
    assert left <= SCALAR_SLACK


def test_freed_only_when_the_last_owner_lets_go() -> None:
    with LiveBytes() as tracker:
        view = matrix()[5]
        assert tracker.peak().end_bytes == MATRIX  # one row keeps the whole storage
        clone = view.clone()
        del view
        assert tracker.peak().end_bytes == KILO * 4
        del clone
    assert tracker.peak().end_bytes == 0


def test_cycles_live_until_collected() -> None:
    with LiveBytes() as tracker:
        gc.disable()
        try:
            ring: list[object] = [matrix()]
            ring.append(ring)
            del ring
            assert tracker.peak().end_bytes == MATRIX
        finally:
            gc.enable()
        gc.collect()
        assert tracker.peak().end_bytes == 0


def test_tensors_from_python_numbers_and_grown_storages_count() -> None:
    assert peak_bytes(lambda: torch.tensor([1.0] * KILO)) == KILO * 4

    def grow() -> Tensor:
        small = torch.empty(0)
        torch.add(matrix(), 1, out=small)  # resized by the operation
        return small

    assert peak_bytes(grow) == 2 * MATRIX


def test_attribution_names_operation_author_and_shape() -> None:
    def author() -> Tensor:
        return torch.ones(3, 4).exp()

    peak: Peak = peak_of(author)[1]
    made = {(a.op, a.shape, a.dtype) for a in peak.alive}
    assert made == {("aten.ones.default", (3, 4), "torch.float32"), ("aten.exp.default", (3, 4), "torch.float32")}
    assert all(a.where.endswith("author") for a in peak.alive)
    assert peak.by_kind(lambda a: a.op) == {"aten.ones.default": 48, "aten.exp.default": 48}
    assert sum(a.storage_bytes for a in peak.alive) == peak.live_bytes


def tiny() -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=500, num_hidden_layers=2, **sizes)).eval()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_transformer_against_the_allocator(attention: str, gradients: bool) -> None:
    model = tiny()
    model.set_attn_implementation(attention)
    ids = torch.arange(120)[None]

    def program() -> object:
        with torch.set_grad_enabled(gradients):
            return model(ids, use_cache=not gradients)

    program()  # whatever is made once is made before
    assert abs(allocator_peak(program) - peak_bytes(program)) <= SCALAR_SLACK


def test_deepcopied_modules_count_once_per_copy() -> None:
    model = tiny()
    copied = sum(p.numel() * p.element_size() for p in model.parameters())
    assert peak_of(lambda: copy.deepcopy(model))[1].end_bytes >= copied


def test_no_allocator_to_read_on_a_cpu() -> None:
    assert allocator_peak_bytes(chain, torch.device("cpu")) is None


CUDA = torch.device("cuda")
BLOCK = 512  # bytes; torch's CUDA allocator hands out multiples of it (kMinBlockSize) …
SMALL_POOL = (
    2**20
)  # … and splits to it only blocks of at most this size (kSmallSize); larger ones keep up to 1 MiB more


class FakeAllocator:
    """What torch.cuda says of its allocator, for programs that `take` and `give`; frees show up when synchronised."""

    def __init__(self, resident: int, peak: int) -> None:
        self.current, self.peak, self.freed = resident, peak, 0
        self.log: list[str] = []

    def take(self, size: int) -> None:
        self.current += size
        self.peak = max(self.peak, self.current)

    def give(self, size: int) -> None:
        self.freed += size

    def synchronize(self, device: torch.device) -> None:
        self._note("synchronize", device)
        self.current, self.freed = self.current - self.freed, 0

    def memory_allocated(self, device: torch.device) -> int:
        self._note("allocated", device)
        return self.current

    def reset_peak_memory_stats(self, device: torch.device) -> None:
        self._note("reset", device)
        self.peak = self.current

    def max_memory_allocated(self, device: torch.device) -> int:
        self._note("peak", device)
        return self.peak

    def program(self) -> None:
        self.log.append("program")
        self.take(300)
        self.give(200)
        self.synchronize(CUDA)
        self.take(150)

    def _note(self, call: str, device: torch.device) -> None:
        assert device == CUDA
        self.log.append(call)


class NeverReset(FakeAllocator):
    def reset_peak_memory_stats(self, device: torch.device) -> None:
        """Forgotten, as in the wrong variant."""


def test_allocator_peak_against_a_hand_made_program() -> None:
    """Resident 1,000; the program holds 300, then 100 and 150 more. The earlier peak of 9,000 is not its own."""
    assert allocator_peak_bytes((fake := FakeAllocator(1000, 9000)).program, CUDA, fake) == 300


def test_allocator_peak_rejects_a_peak_that_was_not_reset() -> None:
    assert allocator_peak_bytes((fake := NeverReset(1000, 9000)).program, CUDA, fake) == 8000


class WaitsTooLate(FakeAllocator):
    """The wrong variant: nothing is waited for before the program."""

    def synchronize(self, device: torch.device) -> None:
        if "program" in self.log:
            super().synchronize(device)


@pytest.mark.parametrize(("fake", "peak"), [(FakeAllocator(1000, 1000), 300), (WaitsTooLate(1000, 1000), 0)])
def test_allocator_peak_rejects_earlier_work_that_is_still_running(fake: FakeAllocator, peak: int) -> None:
    """400 of the resident bytes go free as soon as somebody waits; then the program's 300 hide in their place."""
    fake.give(400)

    def program() -> None:
        fake.log.append("program")
        fake.synchronize(CUDA)
        fake.take(300)

    assert allocator_peak_bytes(program, CUDA, fake) == peak


def test_allocator_is_read_with_everything_finished_on_both_sides() -> None:
    fake = FakeAllocator(0, 0)
    allocator_peak_bytes(lambda: fake.log.append("program"), CUDA, fake)
    assert fake.log == ["synchronize", "allocated", "reset", "program", "synchronize", "peak"]


def small_tensors(count: int, values: int) -> Callable[[], Tensor]:
    """A program whose peak is `count` tensors at once (a list and one result), in a pool that splits to BLOCK."""

    def program() -> Tensor:
        kept = [torch.zeros(values, device=CUDA) for _ in range(count - 1)]
        return kept[0] + 1

    return program


@pytest.mark.gpu
@pytest.mark.parametrize(("count", "values"), [(2, 1), (7, 129), (40, 100_001), (5, SMALL_POOL // 4)])
def test_the_two_accounts_agree_on_a_gpu(count: int, values: int) -> None:
    """Each live tensor is rounded up to BLOCK, so the allocator may see less than one BLOCK per tensor more."""
    program = small_tensors(count, values)
    program()  # contexts and kernels are loaded before
    tracked = peak_bytes(program)
    allocated = allocator_peak_bytes(program, CUDA)
    assert tracked == count * values * 4
    assert allocated is not None and 0 <= allocated - tracked < count * BLOCK
