"""A badge: how many errata, what drifted, in the colour of the page's headline. One SVG, no font but the reader's."""

from __future__ import annotations

from xml.sax.saxutils import escape

from reports.render import sentences
from reports.render.page_model import Page
from reports.render.words import Words

COLOURS = {"good": "#1a6b3c", "bad": "#b3261e", "warn": "#7a5200", "mute": "#5b616b"}  # as in page.css, under white
GLYPH, PAD = 6.8, 8  # pixels: a letter at this size, whose text is stretched to fit; and the room beside the words
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="20" role="img" aria-label="{label}: {said}">
<title>{label}: {said}. {headline}</title>
<rect width="{width:.0f}" height="20" rx="3" fill="#3b3f46"/>
<path d="M{left:.0f} 0h{right:.0f}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{right:.0f}z" fill="{colour}"/>
<g fill="#ffffff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" aria-hidden="true">
<text x="{pad}" y="14" textLength="{label_width:.0f}">{label}</text>
<text x="{said_x:.0f}" y="14" textLength="{said_width:.0f}">{said}</text>
</g>
</svg>
"""


def render_badge(page: Page, w: Words) -> str:
    """The badge as text."""
    label, said = w("ui.errata").lower(), _said(page, w)
    label_width, said_width = GLYPH * len(label), GLYPH * len(said)
    left = label_width + 2 * PAD
    return _SVG.format(
        label=escape(label),
        said=escape(said),
        headline=escape(sentences.headline(page, w)),
        colour=COLOURS[page.headline()[1]],
        width=left + said_width + 2 * PAD,
        left=left,
        right=said_width + 2 * PAD - 3,
        label_width=label_width,
        said_width=said_width,
        said_x=left + PAD,
        pad=PAD,
    )


def _said(page: Page, w: Words) -> str:
    """The share of errata, and what the colour is for."""
    parts = [w("ui.share", wrong=page.num_errata, n=len(page.rows))]
    alarms = {key: n for key, n in page.alarms().items() if n}
    parts += [w(f"badge.{key}", n=n) for key, n in alarms.items()]
    if not parts[1:] and not page.complete:
        parts.append(w("badge.incomplete"))
    return " | ".join(parts)
