"""ReFL (ImageReward, arXiv 2304.05977, Algorithm 1): the gradient of the reward itself, through one denoising step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from backend import flow, tree
from backend.methods.settings import MethodSettings
from backend.types import Cost, Credit, Loss, Plan, Policy, Rollout


class ReFL(MethodSettings):
    """From a late latent of an ODE sample, the data that the network predicts is decoded and scored with gradients.

    Late, because an early prediction is blurred and the reward says little about it; one step, because gradients
    through the whole chain cost its memory. The source also trains on its pre-training data, to stay a good generator;
    kl_weight stands in for that.
    """

    name: Literal["refl"] = "refl"
    group_size: int = Field(4, ge=1, le=1024, description="Samples for each prompt (ours; source 1)")
    start: float = Field(
        0.75,
        ge=0,
        lt=1,
        description="The step with gradients is drawn for each sample, after this share of the steps "
        "(source 0.75: steps 30 to 39 of 40)",
    )
    reward_weight: float = Field(
        1.0, gt=0, description="Factor lambda of the reward's loss (source 1e-3, beside a loss on pre-training data)"
    )
    margin: float | None = Field(
        None,
        description="The loss is relu(margin - r), so rewards above it give no gradient (source 2, for ImageReward's "
        "range of -2 to 2); empty = -r",
    )
    kl_weight: float = Field(
        0.0, ge=0, description="Weight of the squared distance to the base model's velocity; 0 saves its forward (ours)"
    )
    micro_batch: int = Field(32, ge=1, le=65536, description="Most latents in one training forward and decoding (ours)")

    def plan(self, step: int, sigmas: Tensor) -> Plan:
        """group_size deterministic chains from noises of their own; all levels are kept, as one of them is trained."""
        num_steps = len(sigmas) - 1
        rates = torch.zeros(num_steps, dtype=torch.float64)
        return Plan(sigmas, (torch.arange(self.group_size),) * num_steps, rates, shared_noise=False)

    def training_cost(self, plan: Plan) -> Cost:
        """One forward a sample; decoding and scoring with gradients are not counted."""
        return Cost(trained=self.group_size, evaluated=self.group_size if self.kl_weight > 0 else 0, updates=1)

    def credit(self, rollout: Rollout, step: int) -> Credit:
        """No advantages; keep marks the one step of each sample that is taken with gradients, drawn by `step`."""
        plan, rewards = rollout.plan, rollout.rewards
        assert rewards is not None
        values = tree.fuse(plan.parents, rewards, rollout.logps, beta=0)
        first = int(self.start * plan.num_steps)
        generator = torch.Generator().manual_seed(step)
        chosen = torch.randint(first, plan.num_steps, rewards.shape, generator=generator)
        keep = tuple(chosen == level for level in range(plan.num_steps))
        return Credit(tuple(torch.zeros_like(value) for value in values[1:]), keep, values)

    def losses(self, policy: Policy, rollout: Rollout, credit: Credit, step: int) -> Iterator[Loss]:
        """One update on the chosen latents, in micro-batches.

        Its metrics: train/loss, train/reward_predicted (mean reward of the predicted data), train/kl_ref (with a
        kl_weight), and with a margin train/above_margin, the share of samples without gradient.
        """
        assert rollout.judge is not None
        x, sigma, prompt = _chosen(rollout, credit)
        texts = [rollout.prompts[place] for place in rollout.own()]
        num_samples = len(x) * rollout.ranks.size
        seen: list[dict[str, Tensor]] = []
        for batch in torch.arange(len(x)).split(self.micro_batch):
            at = batch.to(x.device)
            cond = rollout.cond.take(prompt[at])
            v = policy.velocity(x[at], sigma[at].to(x), cond)
            frames = policy.decode(flow.predict_x0(x[at], v, sigma[at]))
            rewards = rollout.judge(frames, [texts[int(i)] for i in prompt[at]]).to(v)
            loss = self.reward_weight * (-rewards if self.margin is None else (self.margin - rewards).relu())
            columns = {"train/reward_predicted": rewards}
            if self.margin is not None:
                columns["train/above_margin"] = (rewards >= self.margin).to(v)
            if self.kl_weight > 0:
                with torch.no_grad():
                    anchor = policy.velocity(x[at], sigma[at].to(x), cond, weights="reference")
                kl = (v - anchor).square().flatten(1).mean(1)
                loss = loss + self.kl_weight * kl
                columns["train/kl_ref"] = kl
            seen.append({name: column.detach() for name, column in {"train/loss": loss, **columns}.items()})
            last = int(batch[-1]) == len(x) - 1
            yield Loss(loss.sum() / num_samples, _means(seen) if last else {}, update=last, count=len(x))


def _chosen(rollout: Rollout, credit: Credit) -> tuple[Tensor, Tensor, Tensor]:
    """Latents [N, D...] of own prompts before the kept steps, their sigmas float64 [N], and whose they are, Long[N]."""
    latents, sigmas, prompts = [], [], []
    for level, keep in enumerate(credit.keep):
        prompt, node = rollout.of_own(keep).nonzero(as_tuple=True)
        parent = rollout.plan.parents[level][node.cpu()].to(prompt.device)
        states = rollout.states[level]
        latents.append(states[prompt.to(states.device), parent.to(states.device)])
        sigmas.append(rollout.plan.sigmas[level].double().expand(len(prompt)))
        prompts.append(prompt)
    x = torch.cat(latents)
    return x, torch.cat(sigmas).to(x.device), torch.cat(prompts).to(x.device)


def _means(seen: Sequence[dict[str, Tensor]]) -> dict[str, float]:
    return {name: float(torch.cat([columns[name] for columns in seen]).double().mean()) for name in seen[0]}
