"""The look of the form controls, in the colours that static/theme.css gives everything else."""

from __future__ import annotations

from gradio.themes import Base, Color

LEAF = Color(
    name="leaf",
    c50="#f0f6f1",
    c100="#dfece2",
    c200="#bfd9c6",
    c300="#97c1a3",
    c400="#6aa37c",
    c500="#46865b",
    c600="#2f6b45",
    c700="#275638",
    c800="#21452e",
    c900="#1b3926",
    c950="#0e2115",
)
BARK = Color(
    name="bark",
    c50="#f6f7f4",
    c100="#eceee9",
    c200="#dcdfd8",
    c300="#c2c8bf",
    c400="#98a298",
    c500="#6b766d",
    c600="#535e56",
    c700="#3d4741",
    c800="#252c28",
    c900="#181d1a",
    c950="#111513",
)
SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")


def theme() -> Base:
    """System fonts only: nothing is fetched from elsewhere."""
    return Base(primary_hue=LEAF, secondary_hue=LEAF, neutral_hue=BARK, font=SANS, font_mono=MONO).set(
        body_background_fill="var(--ground)",
        body_background_fill_dark="var(--ground)",
        body_text_color="var(--ink)",
        body_text_color_dark="var(--ink)",
        body_text_color_subdued="var(--quiet)",
        body_text_color_subdued_dark="var(--quiet)",
        block_background_fill="transparent",
        block_background_fill_dark="transparent",
        block_border_width="0px",
        block_shadow="none",
        block_padding="0px",
        block_label_background_fill="transparent",
        block_label_background_fill_dark="transparent",
        block_title_text_weight="600",
        block_title_text_color="var(--ink)",
        block_title_text_color_dark="var(--ink)",
        block_info_text_color="var(--quiet)",
        block_info_text_color_dark="var(--quiet)",
        input_background_fill="var(--surface)",
        input_background_fill_dark="var(--surface)",
        input_border_color="var(--edge)",
        input_border_color_dark="var(--edge)",
        input_border_color_focus="var(--accent)",
        input_border_color_focus_dark="var(--accent)",
        button_primary_background_fill="var(--accent-fill)",
        button_primary_background_fill_dark="var(--accent-fill)",
        button_primary_background_fill_hover="var(--accent-fill-hover)",
        button_primary_background_fill_hover_dark="var(--accent-fill-hover)",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#ffffff",
        button_large_text_weight="600",
    )
