"""A model whose projections are, for a while, given matrices, or computed by given products.

For the techniques that no `Scheme` describes; nothing of the model's own numbers is written to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn

Product = Callable[[Tensor], Tensor]
"""What a layer reads, (n, K) fp32 → its outputs without the bias, (n, R)."""


@contextmanager
def weights_replaced(model: nn.Module, matrices: Mapping[str, Tensor]) -> Iterator[nn.Module]:
    """The model with the linear layers of these names holding these matrices; the originals are back afterwards.

    Raises ValueError for a name that is no linear layer and for another shape, before anything is replaced.
    """
    layers = {name: _linear(model, name) for name in matrices}
    for name, layer in layers.items():
        if layer.weight.shape != matrices[name].shape:
            raise ValueError(f"{name} is {tuple(layer.weight.shape)}, not {tuple(matrices[name].shape)}")
    originals = {name: layer.weight.data for name, layer in layers.items()}
    try:
        for name, layer in layers.items():
            layer.weight.data = matrices[name]
        yield model
    finally:
        for name, layer in layers.items():
            layer.weight.data = originals[name]


@contextmanager
def products_replaced(model: nn.Module, products: Mapping[str, Product]) -> Iterator[nn.Module]:
    """The model with these linear layers computed by these products, all rows of a pass as one batch; bias as before.

    Raises ValueError for a name that is no linear layer. Layers compute as they did when the block ends.
    """
    layers = {name: _linear(model, name) for name in products}
    with ExitStack() as undo:
        for name, layer in layers.items():
            vars(layer)["forward"] = _forward(layer, products[name])  # hides the class's method for this object
            undo.callback(vars(layer).pop, "forward")
        yield model


def _linear(model: nn.Module, name: str) -> nn.Linear:
    layer = dict(model.named_modules()).get(name)
    if not isinstance(layer, nn.Linear):
        raise ValueError(f"{name} is no linear layer of this model")
    return layer


def _forward(layer: nn.Linear, product: Product) -> Product:
    def forward(inputs: Tensor) -> Tensor:
        rows = product(inputs.reshape(-1, inputs.shape[-1]).float())
        outputs = rows if layer.bias is None else rows + layer.bias
        return outputs.to(inputs.dtype).reshape(*inputs.shape[:-1], -1)

    return forward
