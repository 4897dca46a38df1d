"""DPOK (Fan et al. 2023, arXiv 2305.16381): policy gradient with a KL to the base and a learned value baseline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from backend import tree
from backend.critic import Critic, hashed_words
from backend.losses import clamped_ratio
from backend.methods.ddim import DDIMChains, every_noisy_step
from backend.policy_gradient import Objective
from backend.types import Cost, Credit, Loss, Plan, Policy, Rollout


class DPOK(DDIMChains):
    """-w_r (R - V(x_t, prompt, t)) clamp(rho, 1 - e, 1 + e) + w_kl KL, over all stochastic steps.

    Not a group method: a sample is compared with what the value network expects of its state. A rollout's advantages
    are of the network before it has seen the rollout, so that the baseline does not depend on the rewards that it is
    taken from; the release fits it first. It is fitted to the states of the latest rollout alone, where the release
    keeps a buffer of 1000 transitions.
    """

    name: Literal["dpok"] = "dpok"
    reward_weight: float = Field(
        1.0, gt=0, description="w_r (release 100, for ImageReward; under AdamW only its ratio to kl_weight matters)"
    )
    kl_weight: float = Field(
        1e-4, ge=0, description="w_kl of a step's Gaussian KL to the base (release 0.01 beside w_r = 100, so 1e-4 here)"
    )
    updates_per_rollout: int = Field(
        5, ge=1, le=256, description="Optimizer steps of the policy on each rollout, each on its own part (release 5)"
    )
    value_updates: int = Field(5, ge=1, le=1000, description="Optimizer steps of the value network (release 5)")
    value_batch: int = Field(256, ge=1, le=65536, description="States in each of them (release 256)")
    value_learning_rate: float = Field(
        1e-4, gt=0, le=1, description="Learning rate of the value network (release 1e-4)"
    )

    def remember(self, policy: Policy) -> Critic:
        """An unfitted value network for the policy's latents."""
        return Critic(policy.latent_shape, policy.device, learning_rate=self.value_learning_rate)

    def training_cost(self, plan: Plan) -> Cost:
        """Every stochastic step of every sample; those of the value network are not counted."""
        trained = self.group_size * (plan.num_steps - 1)
        return Cost(trained, evaluated=trained if self.kl_weight > 0 else 0, updates=self.updates_per_rollout)

    def credit(self, rollout: Rollout, step: int) -> Credit:
        """The advantage of an edge is w_r (R - V(its parent)); a node's value is V, a leaf's its reward.

        Without a memory (a rollout that is only counted) all states are worth the same: V = 0.
        """
        plan, rewards = rollout.plan, rollout.rewards
        assert rewards is not None
        values = tree.fuse(plan.parents, rewards, rollout.logps, beta=0)
        expected = [torch.zeros_like(value) for value in values[:-1]]
        if isinstance(rollout.memory, Critic):
            expected = [self._expect(rollout.memory, rollout, level).to(values[0]) for level in range(plan.num_steps)]
        failed = values[-1].isnan()
        advantages = tuple((self.reward_weight * (values[-1] - value)).masked_fill(failed, 0.0) for value in expected)
        return Credit(advantages, every_noisy_step(plan, len(rewards)), (*expected, values[-1]))

    def losses(self, policy: Policy, rollout: Rollout, credit: Credit, step: int) -> Iterator[Loss]:
        """The policy's updates, of the advantages that credit found; the first tells the value network's error too."""
        assert isinstance(rollout.memory, Critic)
        generator = torch.Generator().manual_seed(step)
        found = {"train/value_loss": self._fit(rollout.memory, rollout, credit, generator)}
        objective = Objective(self.clip_range, surrogate=clamped_ratio, kl_weight=self.kl_weight)
        for loss in self._losses(policy, rollout, credit, objective, self.updates_per_rollout, generator):
            yield replace(loss, metrics=loss.metrics | found) if loss.update else loss
            found = {} if loss.update else found

    def _fit(self, critic: Critic, rollout: Rollout, credit: Credit, generator: torch.Generator) -> float:
        """The updates of the value network on the trained states; the mean of its squared errors."""
        assert rollout.rewards is not None
        levels = [level for level, keep in enumerate(credit.keep) if keep.any()]
        x = torch.cat([rollout.states[level].flatten(0, 1) for level in levels])
        group_size = rollout.rewards.shape[1]
        words = _words(rollout).repeat_interleave(group_size, dim=0).repeat(len(levels), 1)
        rewards = rollout.of_own(rollout.rewards).flatten().repeat(len(levels))
        sigma = rollout.plan.sigmas[levels].repeat_interleave(len(rewards) // len(levels))
        known = (~rollout.rewards.flatten().repeat(len(levels)).isnan()).nonzero().flatten().cpu()
        num_samples, own = rollout.rewards.numel(), rollout.own(group_size)
        errors = []
        for _ in range(self.value_updates):
            rows = known[torch.randperm(len(known), generator=generator)[: self.value_batch]]
            mine = rows[torch.isin(rows % num_samples, torch.arange(own.start, own.stop))]
            here = mine // num_samples * len(own) + mine % num_samples - own.start
            batch = x[here.to(x.device)], sigma[here], words[here], rewards[here.to(rewards.device)]
            errors.append(critic.fit(*batch, total=len(rows), ranks=rollout.ranks))
        return sum(errors) / len(errors)

    def _expect(self, critic: Critic, rollout: Rollout, level: int) -> Tensor:
        """V of all nodes of a level: [P, G]."""
        states = rollout.states[level]
        words = _words(rollout).repeat_interleave(states.shape[1], dim=0)
        sigma = rollout.plan.sigmas[level].expand(len(words))
        with torch.no_grad():
            here = critic(states.flatten(0, 1), sigma, words).view(states.shape[:2])
        return torch.cat(rollout.ranks.gather(here.cpu()))


def _words(rollout: Rollout) -> Tensor:
    """The hashed words of the process's own prompts, [Q, 64]."""
    return hashed_words([rollout.prompts[place] for place in rollout.own()])
