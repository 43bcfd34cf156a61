#!/usr/bin/env python3
"""Draws how many accelerators arrays feed: AU and MB/s against accelerators, from what `raidlab simulate --accelerators --json` says.

usage: accelerators-chart.py OUT.svg NAME=FILE.json ...
"""
import json
import sys

COLOURS = ["#0b6fb8", "#d1622b", "#2c8a57", "#8a4fa3"]
WIDTH, HEIGHT, LEFT, GAP, TOP, BOTTOM = 860, 330, 62, 80, 44, 70


def ticks(top):
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000) if top / s <= 6)
    return [step * i for i in range(int(top / step) + 1)]


def panel(out, at, title, unit, series, value, top, bound=None):
    width = (WIDTH - LEFT - GAP - 20) / 2
    right = max(point["accelerators"] for _, points, _ in series for point in points)
    x = lambda n: at + width * n / right
    y = lambda v: HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * v / top
    out.append(f'<text x="{at}" y="{TOP - 20}" class="h">{title}</text>')
    for tick in ticks(top):
        out.append(f'<line x1="{at}" x2="{at + width}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" class="g"/>')
        out.append(f'<text x="{at - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}{unit}</text>')
    for tick in ticks(right):
        out.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:g}</text>')
    out.append(f'<text x="{at + width / 2}" y="{HEIGHT - BOTTOM + 36}" text-anchor="middle">accelerators</text>')
    if bound:
        out.append(f'<line x1="{at}" x2="{at + width}" y1="{y(bound):.1f}" y2="{y(bound):.1f}" class="b"/>')
    for (name, points, _), colour in zip(series, COLOURS):
        line = " ".join(f'{x(p["accelerators"]):.1f},{y(value(p)):.1f}' for p in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for p in points:
            fill = colour if p["keeps"] else "white"
            out.append(f'<circle cx="{x(p["accelerators"]):.1f}" cy="{y(value(p)):.1f}" r="4" fill="{fill}" stroke="{colour}" stroke-width="2"/>')


def main():
    series = []
    for argument in sys.argv[2:]:
        name, path = argument.split("=", 1)
        fed = json.load(open(path))["fed"][0]
        series.append((name, fed["points"], fed))
    bound = series[0][2]["au_goal_pct"]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="#333">',
        "<style>.h{font-size:15px;font-weight:600}.g{stroke:#e3e3e3}.b{stroke:#888;stroke-dasharray:5 4}.s{fill:#777}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    width = (WIDTH - LEFT - GAP - 20) / 2
    panel(out, LEFT, f"Utilisation (bound: {bound:g} %)", " %", series, lambda p: p["au_pct"], 100, bound)
    most = max(p["mb_per_s"] for _, points, _ in series for p in points) / 1000
    panel(out, LEFT + width + GAP, "What they read (filled: keeps the bound)", " GB/s", series, lambda p: p["mb_per_s"] / 1000, most * 1.08)
    at = LEFT
    for (name, _, fed), colour in zip(series, COLOURS):
        out.append(f'<circle cx="{at}" cy="{HEIGHT - 14}" r="4" fill="{colour}"/>')
        out.append(f'<text x="{at + 10}" y="{HEIGHT - 10}">{name}: feeds {fed["most"] or 0}</text>')
        at += 40 + 7 * len(f"{name}: feeds {fed['most'] or 0}")
    out.append("</svg>")
    open(sys.argv[1], "w").write("\n".join(out) + "\n")


main()
