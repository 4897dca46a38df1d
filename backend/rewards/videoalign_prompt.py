"""What VideoReward is asked, in the chat format of Qwen2-VL.

Its weights were trained on one long question, the template "detailed_special" in prompt_template.py of the release
(github.com/KwaiVGI/VideoAlign), and not a space of it may change. The words are the release's, so they are read from a
copy of that file.
"""

from __future__ import annotations

import ast
from pathlib import Path

TOKENS = ("<|VQ_reward|>", "<|MQ_reward|>", "<|TA_reward|>")  # visual quality, motion quality, text alignment
PLACE = "{text_prompt}"
FIELD = "rewards.videoalign.question"
REMEDY = "give prompt_template.py of github.com/KwaiVGI/VideoAlign, or a text file with its template of reward tokens"


def read_question(path: str) -> str:
    """The template in a Python file that assigns it, or a text file that is it. Raises ValueError without one."""
    file = Path(path).expanduser()
    if not path or not file.is_file():
        raise ValueError(f"{FIELD}: {path or 'nothing'} is no file; {REMEDY}")
    text = file.read_text(encoding="utf-8")
    try:
        texts = _constants(text) if file.suffix == ".py" else {text}
    except SyntaxError as error:
        raise ValueError(f"{FIELD}: {path} is no Python ({error}); {REMEDY}") from error
    found = [one for one in texts if all(one.count(part) == 1 for part in (*TOKENS, PLACE))]
    if len(found) != 1:
        raise ValueError(
            f"{FIELD}: {path} holds {len(found)} texts with {', '.join(TOKENS)} and {PLACE} once each, not one; "
            f"{REMEDY}"
        )
    return found[0]


def _constants(text: str) -> set[str]:
    return {
        one.value for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }


def asked(question: str, prompt: str, num_video_tokens: int) -> str:
    """The chat as one text. The video stands before the question, as a placeholder for each of its embeddings."""
    video = f"<|vision_start|>{'<|video_pad|>' * num_video_tokens}<|vision_end|>"
    return (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        f"<|im_start|>user\n{video}{question.replace(PLACE, prompt)}<|im_end|>\n<|im_start|>assistant\n"
    )
