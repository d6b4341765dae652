"""What tests of several instruments share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Thousands of tiny products: handing them to several threads only costs, and much on a busy machine."""
    import torch  # here, because this file is loaded with every test below

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
