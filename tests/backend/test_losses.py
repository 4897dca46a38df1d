"""The clipped ratio: T11."""

import pytest
import torch

from backend.losses import clipped_ratio


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_T11_at_ratio_one_the_gradient_is_minus_the_advantage() -> None:
    log_ratio = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    advantages = tensor(2.0, -1.0, 0.0)
    loss = clipped_ratio(log_ratio, advantages, clip=0.1)
    loss.sum().backward()
    assert torch.equal(loss, -advantages)
    assert torch.equal(log_ratio.grad, -advantages)


@pytest.mark.parametrize(
    ("advantage", "ratio", "loss", "has_gradient"),
    [
        (1.0, 1.5, -1.1, False),  # already better than the region allows: clipped
        (1.0, 0.5, -0.5, True),  # a good action became unlikely: pulled back
        (-1.0, 0.5, 0.9, False),  # a bad action is unlikely enough: clipped
        (-1.0, 1.5, 1.5, True),  # a bad action became likely: pulled back
        (1.0, 1.05, -1.05, True),  # inside
    ],
)
def test_T11_only_leaving_the_region_in_the_wanted_direction_is_clipped(
    advantage: float, ratio: float, loss: float, has_gradient: bool
) -> None:
    log_ratio = tensor(ratio).log().requires_grad_()
    value = clipped_ratio(log_ratio, tensor(advantage), clip=0.1)
    value.sum().backward()
    assert value.item() == pytest.approx(loss)
    assert log_ratio.grad.item() == pytest.approx(-advantage * ratio if has_gradient else 0.0)
