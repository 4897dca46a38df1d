import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from backend import checkpoint
from backend.config import dump
from backend.device import pick
from backend.lora_export import export, main
from backend.models.weights import Ema

OURS = "transformer_blocks.0.attn.to_q.lora_B.default.weight"
LORA = "model.tuning={kind: lora, rank: 4, alpha: 8}"
THEIRS = "transformer.transformer_blocks.0.attn.to_q.lora_B.weight"


@pytest.fixture
def saved(small, tmp_path):
    """(the policy, its checkpoint of step 4) of a run named trial."""

    def save(*settings, averaged=False):
        config = small("name=trial", *settings)
        policy = config.model.load(pick(), 0)
        with torch.no_grad():
            for value in policy.trained().values():
                value.add_(0.05)
        ema = Ema(policy.module, 0.5) if averaged else None
        with torch.no_grad():
            for value in policy.trained().values():
                value.add_(1.0)
        optimizer = torch.optim.AdamW(policy.tuned.parameters())
        return policy, checkpoint.save(tmp_path / "run-7", 4, policy, optimizer, ema, dump(config))

    return save


def test_the_file_holds_the_weights_and_says_where_they_come_from(saved, tmp_path, capsys):
    policy, folder = saved(LORA)
    out = tmp_path / "to" / "lora.safetensors"
    assert main(["export", str(folder), "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    stored = load_file(out)
    assert len(stored) == len(policy.trained())
    assert torch.equal(stored[THEIRS], policy.trained()[OURS])
    with safe_open(out, framework="pt") as opened:
        notes = opened.metadata()
    expected = {"base": "shapes", "method": "branchgrpo", "step": "4", "run": "run-7", "rank": "4", "alpha": "8"}
    assert {name: notes[name] for name in expected} == expected


def test_the_average_is_exported_on_request(saved, tmp_path):
    policy, folder = saved(LORA, averaged=True)
    stored = load_file(export(folder, tmp_path / "lora.safetensors", average=True))
    torch.testing.assert_close(stored[THEIRS], policy.trained()[OURS].detach() - 1)
    _, without = saved(LORA)
    with pytest.raises(ValueError, match="keeps no moving average"):
        export(without, tmp_path / "lora.safetensors", average=True)


def test_mistakes_are_one_line(saved, tmp_path, capsys):
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "x")]) == 2
    assert "incomplete or no checkpoint" in capsys.readouterr().err
    _, full = saved("model.tuning={kind: full}")
    assert main(["export", str(full), "--out", str(tmp_path / "x")]) == 2
    assert "full tuning, which has no LoRA" in capsys.readouterr().err


def test_an_adapter_that_changes_nothing_is_refused(small, tmp_path):
    policy = small(LORA).model.load(pick(), 0)
    optimizer = torch.optim.AdamW(policy.tuned.parameters())
    folder = checkpoint.save(tmp_path, 0, policy, optimizer, None, dump(small(LORA)))  # B is zero before an update
    with pytest.raises(ValueError, match=r"empty or all zero and would change nothing"):
        export(folder, tmp_path / "lora.safetensors")
    assert not (tmp_path / "lora.safetensors").exists()
    policy.module.requires_grad_(False)
    with pytest.raises(ValueError, match=r"nothing is trained at step 1"):
        checkpoint.save(tmp_path, 1, policy, optimizer, None, "")
    assert checkpoint.latest(tmp_path) == folder
