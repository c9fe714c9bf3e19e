"""Plots as SVG, written by hand: the same figures give the same text, whatever is installed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 34, 44
COLOURS = ("#2a6f97", "#b04a3a", "#588157", "#dda15e")
STEPS = (1, 2, 2.5, 5, 10)
TICKS = 5


@dataclass(frozen=True)
class Plot:
    """`lines`: name -> abscissa -> figure. The horizontal axis is logarithmic, the vertical one begins at 0."""

    title: str
    across: str
    up: str
    lines: Mapping[str, Mapping[float, float]]

    def svg(self) -> str:
        """The picture."""
        style = "font-family='sans-serif' font-size='11' fill='#222'"
        parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' role='img' {style}>",
            f"<title>{escape(self.title)}</title>",
            f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#fff'/>",
            *self._axes(),
            *(part for number, name in enumerate(self.lines) for part in self._line(number, name)),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def _axes(self) -> Iterator[str]:
        bottom = HEIGHT - BOTTOM
        for tick in self._ticks():
            y = self._y(tick)
            yield f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y:.1f}' y2='{y:.1f}' stroke='#e4e4e4'/>"
            yield f"<text x='{LEFT - 6}' y='{y + 4:.1f}' text-anchor='end'>{short(tick)}</text>"
        for at in self._abscissas():
            x = self._x(at)
            yield f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{bottom}' y2='{bottom + 4}' stroke='#888'/>"
            yield f"<text x='{x:.1f}' y='{bottom + 16}' text-anchor='middle'>{short(at)}</text>"
        middle = (LEFT + WIDTH - RIGHT) / 2
        yield f"<text x='{middle:.1f}' y='{HEIGHT - 8}' text-anchor='middle'>{escape(self.across)}</text>"
        yield f"<text x='8' y='16'>{escape(self.up)}</text>"

    def _line(self, number: int, name: str) -> Iterator[str]:
        colour = COLOURS[number % len(COLOURS)]
        places = [(self._x(at), self._y(figure)) for at, figure in sorted(self.lines[name].items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>"
        for x, y in places:
            yield f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>"
        across = WIDTH - RIGHT - 150 * (len(self.lines) - number)
        yield f"<rect x='{across}' y='8' width='10' height='10' fill='{colour}'/>"
        yield f"<text x='{across + 15}' y='17'>{escape(name)}</text>"

    def _abscissas(self) -> Sequence[float]:
        return sorted({at for line in self.lines.values() for at in line})

    def _x(self, at: float) -> float:
        found = self._abscissas()
        low, high = math.log(found[0]), math.log(found[-1])
        share = (math.log(at) - low) / (high - low) if high > low else 0.5
        return LEFT + 12 + share * (WIDTH - LEFT - RIGHT - 24)

    def _y(self, figure: float) -> float:
        return HEIGHT - BOTTOM - figure / self._ticks()[-1] * (HEIGHT - TOP - BOTTOM)

    def _ticks(self) -> Sequence[float]:
        """Round numbers from 0 to above the largest figure."""
        largest = max((figure for line in self.lines.values() for figure in line.values()), default=1.0) or 1.0
        rough = largest / TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * each for each in STEPS if power * each >= rough * (1 - 1e-9))
        return [step * number for number in range(math.ceil(largest / step - 1e-9) + 1)]


def short(figure: float) -> str:
    """A number with few letters."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if figure >= unit:
            return f"{figure / unit:g}{letter}"
    return f"{figure:g}"
