"""A self-contained page about one simulation: machines and GPUs over time, waiting pods, money, and what happened."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from controller.sandbox.simulator.result import Result, words
from controller.sandbox.simulator.timeline import Timeline

WIDTH, HEIGHT = 960, 160
MOST_POINTS, MOST_EVENTS = 1500, 3000
_STYLE = (
    "body{font:14px system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}"
    "svg{width:100%;height:auto;background:#f7f7f7}pre{background:#f7f7f7;padding:1em;overflow:auto}"
    "h2{font-size:1em;margin:1.5em 0 .3em}.bad{color:#b00}@media(prefers-color-scheme:dark){"
    "body{background:#161616;color:#ddd}svg,pre{background:#222}}"
)
_COLOURS = ("#1769aa", "#d9822b", "#6a994e")


def page(result: Result, timeline: Timeline) -> str:
    samples = timeline.samples[:: max(1, len(timeline.samples) // MOST_POINTS)]
    charts = [
        ("Machines", [("machines", "machines")]),
        ("GPUs", [("paid", "gpus"), ("used", "gpus_used")]),
        ("Pods", [("waiting", "pods_waiting"), ("running", "pods_running")]),
        ("Money", [("paid so far", "cost")]),
    ]
    body = "".join(f"<h2>{escape(title)}</h2>" + _chart(samples, lines) for title, lines in charts)
    summary = "\n".join(words(result))
    events = "\n".join(f"{_clock(at)}  {text}" for at, text in timeline.happened[-MOST_EVENTS:])
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Simulation, seed {result['seed']}</title><style>{_STYLE}</style>"
        f"<h1>Simulation, seed {result['seed']}</h1>"
        f"<pre{' class=bad' if result['violations'] else ''}>{escape(summary)}</pre>{body}"
        f"<h2>What happened</h2><pre>{escape(events)}</pre></html>\n"
    )


def _chart(samples: Sequence[dict[str, Any]], lines: Sequence[tuple[str, str]]) -> str:
    if not samples:
        return "<p>nothing was sampled</p>"
    begin, end = samples[0]["t"], max(samples[-1]["t"], samples[0]["t"] + 1)
    most = max(max(float(sample[key]) for sample in samples) for _, key in lines) or 1.0
    drawn = []
    for number, (name, key) in enumerate(lines):
        points = " ".join(
            f"{40 + (WIDTH - 60) * (sample['t'] - begin) / (end - begin):.1f},"
            f"{HEIGHT - 20 - (HEIGHT - 40) * float(sample[key]) / most:.1f}"
            for sample in samples
        )
        colour = _COLOURS[number]
        drawn.append(f"<polyline fill=none stroke='{colour}' stroke-width=1.5 points='{points}'/>")
        drawn.append(f"<text x={50 + 110 * number} y=14 fill='{colour}' font-size=12>{escape(name)}</text>")
    marks = "".join(
        f"<text x='{40 + (WIDTH - 60) * share:.0f}' y={HEIGHT - 4} font-size=11 fill=gray>"
        f"{_clock(begin + (end - begin) * share)}</text>"
        for share in (0, 0.25, 0.5, 0.75)
    )
    top = f"<text x=2 y=24 font-size=11 fill=gray>{most:g}</text>"
    return f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img>{''.join(drawn)}{marks}{top}</svg>"


def _clock(seconds: float) -> str:
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    return (f"{days}d " if days else "") + f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
