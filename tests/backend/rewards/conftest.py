from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.backend.rewards import tiny_clip


@pytest.fixture
def pictures() -> Tensor:
    """[3, 1, 3, 20, 28] at 8-bit levels."""
    drawn = torch.randint(0, 256, (3, 1, 3, 20, 28), generator=torch.Generator().manual_seed(0))
    return drawn.float() / 255


@pytest.fixture(scope="session")
def openai_like(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Tensor]]:
    """A folder with a CLIP whose activation is OpenAI's, and its weights by OpenCLIP's names."""
    folder, made = tiny_clip.saved(tmp_path_factory.mktemp("openai"), "quick_gelu")
    return folder, tiny_clip.open_clip_names(made)


@pytest.fixture(scope="session")
def laion_like(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Tensor]]:
    """The same with LAION's activation."""
    folder, made = tiny_clip.saved(tmp_path_factory.mktemp("laion"), "gelu", seed=1)
    return folder, tiny_clip.open_clip_names(made)
