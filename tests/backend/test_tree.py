"""Trees of known shape and rewards: every expected number is worked out by hand or by direct enumeration."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from backend import tree
from backend.types import Plan

DENSE = (0, 3, 6, 9)


def edges(parents: Sequence[Tensor]) -> int:
    return sum(len(level) for level in parents)


def calls(parents: Sequence[Tensor]) -> int:
    return 1 + sum(len(level) for level in parents[:-1])


def random_logps(parents: Sequence[Tensor], num_prompts: int = 2, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(num_prompts, len(level), generator=generator, dtype=torch.float64) for level in parents]


def random_rewards(num_leaves: int, num_prompts: int = 2, seed: int = 1) -> Tensor:
    return torch.randn(num_prompts, num_leaves, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def kept(masks: Sequence[Tensor]) -> list[int]:
    return [int(mask.sum()) for mask in masks]


@pytest.mark.parametrize(
    ("split_steps", "num_calls", "num_edges"),
    [(DENSE, 203, 218), ((0, 4, 8, 12), 169, 184), ((0, 5, 10, 15), 135, 150), ((9, 12, 15, 18), 68, 83)],
)
def test_T17_counts_of_the_papers_schedules(split_steps: tuple[int, ...], num_calls: int, num_edges: int) -> None:
    parents = tree.splits(20, split_steps, 2)
    assert (calls(parents), edges(parents), len(parents[-1])) == (num_calls, num_edges, 16)


def test_T17_three_branches_make_81_leaves_and_dense_has_219_nodes() -> None:
    assert len(tree.splits(20, DENSE, 3)[-1]) == 81
    assert 1 + edges(tree.splits(20, DENSE, 2)) == 219


def test_splits_numbers_siblings_side_by_side() -> None:
    assert [level.tolist() for level in tree.splits(3, (0, 2), 2)] == [[0, 0], [0, 1], [0, 0, 1, 1]]


def test_fuse_by_hand() -> None:
    # two nodes under the root, two leaves under each; log-probs 0 but for log 3 on the first leaf
    parents = tree.splits(2, (0, 1), 2)
    logps = [torch.zeros(1, 2), torch.tensor([[3.0, 1.0, 1.0, 1.0]]).double().log()]
    values = tree.fuse(parents, torch.tensor([[4.0, 0.0, 1.0, 3.0]]), logps, beta=1.0)
    torch.testing.assert_close(values[1], torch.tensor([[3.0, 2.0]]).double())  # (3*4 + 0) / 4 and (1 + 3) / 2
    torch.testing.assert_close(values[0], torch.tensor([[16.0 / 6]]).double())  # (3*4 + 0 + 1 + 3) / 6


def test_T21_beta_zero_is_the_mean_of_the_leaves_of_every_node() -> None:
    parents = tree.splits(5, (0, 2), 3)
    rewards = random_rewards(9)
    values = tree.fuse(parents, rewards, random_logps(parents), beta=0.0)
    torch.testing.assert_close(values[0], rewards.mean(1, keepdim=True))
    torch.testing.assert_close(values[1], rewards.view(2, 3, 3).mean(2))
    assert torch.equal(values[-1], rewards)


@pytest.mark.parametrize("beta", [0.0, 1.0, 50.0])
def test_T21_constant_rewards_and_bounds(beta: float) -> None:
    parents = tree.splits(4, (0, 1, 3), 2)
    for value in tree.fuse(parents, torch.full((2, 8), 0.3), random_logps(parents), beta):
        torch.testing.assert_close(value, torch.full_like(value, 0.3), rtol=1e-6, atol=0)
    rewards = random_rewards(8)
    root = tree.fuse(parents, rewards, random_logps(parents), beta)[0][:, 0]
    assert ((rewards.min(1).values < root) & (root < rewards.max(1).values)).all()


def test_T21_equals_the_softmax_over_whole_paths_and_picks_the_likeliest_leaf() -> None:
    parents = tree.splits(4, (0, 1, 3), 2)
    logps, rewards = random_logps(parents), random_rewards(8)
    path, index = torch.zeros_like(rewards), torch.arange(8)
    for level, logp in zip(reversed(parents), reversed(logps), strict=True):
        path, index = path + logp[:, index], level[index]
    for beta in (0.5, 1.0, 3.0):
        expected = (torch.softmax(beta * path, 1) * rewards).sum(1)
        torch.testing.assert_close(tree.fuse(parents, rewards, logps, beta)[0][:, 0], expected, rtol=0, atol=1e-12)
    likeliest = rewards.gather(1, path.argmax(1, keepdim=True))
    torch.testing.assert_close(tree.fuse(parents, rewards, logps, 1e6)[0], likeliest, rtol=0, atol=1e-12)


def test_T21_softmax_over_children_alone_is_another_estimator() -> None:
    # the first child's leaves are all likelier: paths weigh it more, its own edge does not
    parents = tree.splits(2, (0, 1), 2)
    logps = [torch.zeros(1, 2).double(), torch.tensor([[2.0, 2.0, 0.0, 0.0]]).double()]
    rewards = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    by_paths = tree.fuse(parents, rewards, logps, beta=1.0)[0].item()
    by_children = 0.5 * 1.0 + 0.5 * 0.0
    assert by_paths == pytest.approx(torch.tensor([2.0, 0.0]).softmax(0)[0].item())  # 0.881
    assert abs(by_paths - by_children) > 0.3


def test_fuse_sums_over_latent_dimensions_when_told() -> None:
    parents = tree.splits(3, (0, 1), 2)
    logps, rewards = random_logps(parents), random_rewards(4)
    summed = tree.fuse(parents, rewards, logps, 0.1, "sum", latent_dims=10)
    for one, other in zip(summed, tree.fuse(parents, rewards, logps, 1.0), strict=True):
        torch.testing.assert_close(one, other)


def test_deterministic_steps_take_part_in_fusion_without_weight() -> None:
    parents = tree.splits(3, (0,), 2)
    logps = [torch.tensor([[0.5, -0.5]]).double(), *(torch.full((1, 2), torch.nan) for _ in range(2))]
    root = tree.fuse(parents, torch.tensor([[1.0, 0.0]]), logps, 1.0)[0].item()
    assert root == pytest.approx(torch.tensor(1.0).sigmoid().item())  # softmax([0.5, -0.5])[0]


def test_a_broken_log_probability_stays_visible() -> None:
    parents = tree.splits(2, (0,), 2)
    logps = [torch.tensor([[0.5, torch.nan]]), torch.zeros(1, 2)]
    assert tree.fuse(parents, torch.ones(1, 2), logps, 1.0)[0].isnan().all()


def test_T22_advantages_are_standardised_at_each_depth_of_each_tree() -> None:
    parents = tree.splits(6, (0, 2, 4), 2)
    rewards = random_rewards(8)
    values = tree.fuse(parents, rewards, random_logps(parents), 1.0)
    advantages = tree.depth_advantages(values, clip=5.0)
    for advantage in advantages:
        assert advantage.dtype == torch.float64
        assert advantage.mean(1).abs().max() < 1e-12
        torch.testing.assert_close(advantage.std(1), torch.ones(2).double(), rtol=1e-6, atol=0)
    for scale, shift in ((3.0, 7.0), (-2.0, 1.0)):
        other = tree.fuse(parents, scale * rewards + shift, random_logps(parents), 1.0)
        for one, two in zip(advantages, tree.depth_advantages(other, clip=5.0), strict=True):
            torch.testing.assert_close(two, one if scale > 0 else -one, rtol=0, atol=1e-6)


def test_two_nodes_get_the_same_advantages_whatever_their_distance() -> None:
    values = [torch.zeros(1, 1), torch.tensor([[0.0, 5.0]]), torch.tensor([[0.2, 0.1]])]
    unbiased = tree.depth_advantages(values, clip=5.0)
    torch.testing.assert_close(unbiased[0], torch.tensor([[-(0.5**0.5), 0.5**0.5]]).double())
    torch.testing.assert_close(unbiased[1], torch.tensor([[0.5**0.5, -(0.5**0.5)]]).double(), rtol=1e-6, atol=0)
    biased = tree.depth_advantages(values, clip=5.0, unbiased=False)
    torch.testing.assert_close(biased[0], torch.tensor([[-1.0, 1.0]]).double())


def test_advantages_are_clipped() -> None:
    value = torch.zeros(1, 101).double()
    value[0, 0] = 1.0  # z-score of one in 101: (1 - 1/101) / sqrt(1/101) = 9.95
    assert tree.depth_advantages([value, value], clip=20.0)[0].max() == pytest.approx(9.95, abs=0.01)
    assert tree.depth_advantages([value, value], clip=5.0)[0].max() == 5.0


def test_T23_single_and_constant_depths_get_exactly_zero() -> None:
    values = [torch.ones(1, 1), torch.ones(1, 1), torch.tensor([[0.1 + 0.2, 0.3]]).double(), torch.full((1, 4), 0.7)]
    for advantage in tree.depth_advantages(values, clip=5.0):
        assert torch.equal(advantage, torch.zeros_like(advantage))


def test_T24_an_unsplit_chain_repeats_value_and_advantage() -> None:
    parents = tree.splits(20, DENSE, 2)
    values = tree.fuse(parents, random_rewards(16), random_logps(parents), 1.0)
    advantages = tree.depth_advantages(values, clip=5.0)
    for first, last in ((1, 3), (4, 6), (7, 9), (10, 20)):
        for depth in range(first, last + 1):
            torch.testing.assert_close(values[depth], values[first])
            torch.testing.assert_close(advantages[depth - 1], advantages[first - 1])


def test_trainable_leaves_out_deterministic_steps_and_single_nodes() -> None:
    parents = tree.splits(5, (1, 3), 2)
    rates = torch.tensor([0.3, 0.3, 0.0, 0.3, 0.0])
    plan = Plan(torch.linspace(1, 0, 6), parents, rates)
    assert kept(tree.trainable(plan, 3)) == [0, 6, 0, 12, 0]


def test_T17_parent_top1_keeps_138_edges() -> None:
    parents = tree.splits(20, DENSE, 2)
    values = tree.fuse(parents, random_rewards(16, num_prompts=1), random_logps(parents, 1), 1.0)
    masks = tree.parent_top1(parents, values)
    assert sum(kept(masks)) == 138  # 58 edges of steps 0..9, and 8 chains of 10
    better = values[10].view(8, 2).argmax(1)
    assert torch.equal(masks[10].view(8, 2).int().argmax(1), better)
    assert (masks[10].view(8, 2).sum(1) == 1).all()


def test_parent_top1_keeps_the_first_of_equal_children_and_everything_without_splits() -> None:
    parents = tree.splits(3, (0, 1), 2)
    values = [torch.ones(1, 1), torch.ones(1, 2), torch.ones(1, 4), torch.ones(1, 4)]
    assert tree.parent_top1(parents, values)[2].tolist() == [[True, False, True, False]]
    flat = (torch.arange(3),) * 2
    assert kept(tree.parent_top1(flat, [torch.ones(1, 3)] * 3)) == [3, 3]


def test_extreme_keeps_the_best_and_the_worst() -> None:
    parents = tree.splits(3, (0, 1), 2)
    leaves = torch.tensor([[0.3, 0.9, 0.1, 0.5]])
    masks = tree.extreme(parents, [torch.ones(1, 1), torch.ones(1, 2), leaves, leaves], count=1)
    assert [mask.tolist() for mask in masks] == [[[True] * 2], [[True] * 4], [[False, True, True, False]]]
    everything = tree.extreme(parents, [torch.ones(1, 1), torch.ones(1, 2), leaves, leaves], count=3)
    assert kept(everything) == [2, 4, 4]


@pytest.mark.parametrize(
    ("step", "towards_data", "towards_noise"), [(0, 10, 15), (29, 10, 15), (30, 11, 14), (90, 13, 12), (3000, 16, 9)]
)
def test_T25_window_moves_both_ways_and_stops(step: int, towards_data: int, towards_noise: int) -> None:
    assert tree.window_start(10, 1, 30, 16, step) == towards_data
    assert tree.window_start(15, -1, 30, 9, step) == towards_noise


def test_T25_a_window_of_four_late_depths_leaves_154_edges() -> None:
    parents = tree.splits(20, DENSE, 2)
    values = tree.fuse(parents, random_rewards(16, 1), random_logps(parents, 1), 1.0)
    masks = tree.outside_window(values, first=10, width=4)
    assert sum(kept(masks)) == 218 - 4 * 16
    assert kept(masks)[8:14] == [8, 0, 0, 0, 0, 16]  # depth 10 is the child of step 9


def test_fuse_and_prune_follow_irregular_trees() -> None:
    # a comb: one node of each level goes on splitting, the others do not
    parents = (torch.tensor([0, 0]), torch.tensor([0, 1, 1]))
    values = tree.fuse(parents, torch.tensor([[1.0, 2.0, 6.0]]), [torch.zeros(1, 2), torch.zeros(1, 3)], 0.0)
    assert [value.tolist() for value in values] == [[[3.0]], [[1.0, 4.0]], [[1.0, 2.0, 6.0]]]


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_pitfall_25_a_leaf_that_was_not_judged_counts_nowhere(beta: float) -> None:
    parents = tree.splits(3, (0, 2), 2)  # the root, 2 and 2 nodes, 4 leaves
    logps, rewards = random_logps(parents), random_rewards(4)
    rewards[:, 1] = float("nan")  # the sibling of leaf 0, which its parent is worth alone
    values = tree.fuse(parents, rewards, logps, beta)
    assert torch.equal(values[2][:, 0], rewards[:, 0])
    paths = logps[0][:, [0, 1, 1]] + logps[1][:, [0, 1, 1]] + logps[2][:, [0, 2, 3]]
    expected = ((beta * paths).softmax(1) * rewards[:, [0, 2, 3]]).sum(1)
    torch.testing.assert_close(values[0][:, 0], expected)
    advantages = tree.depth_advantages(values, 5.0)
    assert torch.equal(advantages[-1][:, 1], torch.zeros(2).double())
    assert not torch.cat(advantages, dim=1).isnan().any()


def test_a_node_above_nothing_that_was_judged_has_no_value_and_spoils_no_other() -> None:
    parents = tree.splits(2, (0, 1), 2)
    rewards = torch.tensor([[float("nan"), float("nan"), 1.0, 4.0]]).double()
    root, nodes, _ = tree.fuse(parents, rewards, random_logps(parents, 1), beta=0.0)
    assert nodes[0, 0].isnan()
    assert (float(nodes[0, 1]), float(root)) == (2.5, 2.5)


def test_pruning_prefers_what_was_judged() -> None:
    parents = tree.splits(1, (0,), 4)
    values = [torch.zeros(1, 1).double(), torch.tensor([[3.0, float("nan"), 1.0, 2.0]]).double()]
    parents, values = (*parents, torch.arange(4)), [*values, values[-1]]
    assert tree.parent_top1(parents, values)[1].tolist() == [[True, False, False, False]]
    # in ascending order 1, 2, not judged (at the mean, 2), 3
    assert tree.extreme(parents, values, 1)[1].tolist() == [[True, False, True, False]]
