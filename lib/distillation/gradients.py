"""What the student's logits feel: the gradient of the distillation loss, in closed form, and what a temperature does.

Loss per position: cross-entropy of the student at T against the teacher at T (or the KL divergence, which differs by
the teacher's entropy, a constant). Gradient with respect to the student's logits:

    dL/dz = (softmax(z / T) - softmax(v / T)) / T                                  Hinton et al. 2015, eq. 2

One T is explicit, another hides in the difference of two distributions that flatten towards each other, so the
gradient falls as 1/T² and the loss is multiplied by T² to keep its weight beside a hard-label loss (eq. 3 and 4).
Classes are summed, positions are left to the caller: a mean over V classes would shrink all of this V times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lib.distillation.temperature import log_soften, soften
from lib.unmeasurable import Unmeasurable

Loss = Callable[[Tensor], Tensor]


def soft_cross_entropy(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """-sum_i softmax(v/T)_i log softmax(z/T)_i in nats; logits (..., V) of both, returns (...), without the T²."""
    return -(soften(teacher, temperature) * log_soften(student, temperature)).sum(-1)


def soft_divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """KL(teacher at T || student at T) in nats, (...), without the T². Finite logits."""
    target = log_soften(teacher, temperature)
    return (target.exp() * (target - log_soften(student, temperature))).sum(-1)


def soft_gradient(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Closed form of the gradient of either loss with respect to the student's logits, (..., V), without the T²."""
    return (soften(student, temperature) - soften(teacher, temperature)) / temperature


def hard_gradient(student: Tensor, label: Tensor) -> Tensor:
    """softmax(z) minus one at the label: gradient of the usual cross-entropy; logits (..., V), label (...)."""
    one_hot = torch.nn.functional.one_hot(label, student.shape[-1])
    return soften(student, 1.0) - one_hot


def autograd_gradient(loss: Loss, student: Tensor) -> Tensor:
    """d loss(z) / dz at the student's logits by autograd, in float64; a loss per row is summed."""
    leaf = student.detach().double().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf).sum(), leaf)
    return gradient


def hot_limit(student: Tensor, teacher: Tensor) -> Tensor:
    """Limit of T² times the gradient as T grows: the difference of centred logits over V, (..., V).

    Hinton et al. 2015, eq. 4, without their assumption that logits have mean zero: softmax ignores the mean, so it is
    subtracted here. In this limit distillation matches logits, each with the same weight, tail and near miss alike.
    """
    difference = student.double() - teacher.double()
    return (difference - difference.mean(-1, keepdim=True)) / student.shape[-1]


def hot_limit_error_bound(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """How far, per position and at most, any element of T² times the gradient is from `hot_limit`.

    With x = centred z / T, mean 0, and m = max |x| <= 1: 1 + x <= e^x <= 1 + x + x², so the mean of e^x lies in
    [1, 1 + m²] and V p_i = 1 + x_i + r with -2 m² <= r <= m². The difference of two such r is at most 3 m², and
    T² / T = T stands in front; m falls as 1/T, so the bound does too. Raises ValueError where m > 1.
    """
    reach = torch.maximum(_reach(student, temperature), _reach(teacher, temperature))
    if bool((reach > 1).any()):
        raise ValueError(f"temperature {temperature} is below the largest centred logit: no limit to speak of")
    return 3 * temperature * reach.square() / student.shape[-1]


def expected_hard_gradient(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean of the hard gradient over labels drawn from the teacher, summed over all V labels; logits (V,) of both.

    Equal to `soft_gradient` at T = 1: hard labels carry the teacher's uncertainty too, on average.
    """
    every = torch.arange(student.shape[-1])
    gradients = hard_gradient(student.expand(len(every), -1), every)  # (V labels, V)
    return soften(teacher, 1.0) @ gradients


def label_noise(teacher: Tensor) -> Tensor:
    """Variance that drawing the label adds to the gradient, summed over the logits: 1 - sum p². Logits (..., V).

    What a soft label removes, whatever the student. Nothing at a certain teacher, nearly 1 at a flat one.
    """
    return 1 - soften(teacher, 1.0).square().sum(-1)


def gradient_share(gradient: Tensor, tokens: Sequence[int] | Tensor) -> float:
    """Part of a gradient's absolute sum (V,) that falls on some tokens; Unmeasurable where the gradient is zero."""
    total = float(gradient.abs().sum())
    if total == 0:
        raise Unmeasurable("a gradient of zero has no shares")
    return float(gradient[torch.as_tensor(tokens)].abs().sum()) / total


def _reach(logits: Tensor, temperature: float) -> Tensor:
    """Largest centred logit over the temperature, (...)."""
    precise = logits.double()
    return (precise - precise.mean(-1, keepdim=True)).abs().amax(-1) / temperature
