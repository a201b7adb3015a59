"""Results as HTML for notebooks: the summary as a table, a small chart, and the text of the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT, LEFT, BOTTOM = 480, 150, 56, 20
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
METRICS = (("Time to first token (ms)", "ttft"), ("Request latency (ms)", "e2e_latency"), ("Inter-token latency (ms)", "itl"), ("Time per output token (ms)", "tpot"))
STATISTICS = (("mean", "mean"), ("median", "p50"), ("p90", "p90"), ("p99", "p99"), ("max", "max"))
TOTALS = (("Completed requests", "completed_requests"), ("Requests/s", "request_throughput_rps"), ("Output tokens/s", "output_throughput_tok_s"),
          ("Prefix cache hit rate", "prefix_cache_reused_ratio"))


def page(summary: str, chart: str, text: str) -> str:
    """Return the HTML of a result."""
    return f"<div>{summary}{chart}<details><summary>Report</summary><pre>{escape(text.rstrip())}</pre></details></div>"


def number(value: Any) -> str:
    """Return the text of a value in a table."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() or abs(value) >= 10_000 else f"{value:,.2f}"
    return "" if value is None else str(value)


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as an HTML table."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(number(row.get(name)))}</td>" for name in columns) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def text(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as aligned text."""
    lines = [list(columns), *([number(row.get(name)) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "".join("  ".join(value.rjust(width) for value, width in zip(line, widths)) + "\n" for line in lines)


def latencies(report: Mapping[str, Any]) -> str:
    """Return the summary of a report: rows of metrics and their percentiles."""
    totals = [{"": label, "value": report[key]} for label, key in TOTALS if key in report]
    rows = []
    for label, metric in METRICS:
        values = {name: report.get(f"{statistic}_{metric}_ms") for statistic, name in STATISTICS}
        if any(value is not None for value in values.values()):
            rows.append({"": label, **values})
    return table(["", *(name for _, name in STATISTICS)], rows) + table(["", "value"], totals)


def chart(title: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return a line chart as SVG; "" if there are no points."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    top = max(y for _, y in points) or 1.0
    wide, tall = WIDTH - LEFT - 8, HEIGHT - BOTTOM - 20

    def text(x: float, y: float, words: str, rest: str = "") -> str:
        return f'<text x="{x}" y="{y}" {rest}>{escape(words)}</text>'

    parts = [text(LEFT, 12, title), f'<path d="M{LEFT} 20v{tall}h{wide}" fill="none" stroke="#888"/>',
             text(LEFT - 4, 28, number(float(top)), 'text-anchor="end"'), text(LEFT - 4, 20 + tall, "0", 'text-anchor="end"'),
             text(LEFT, HEIGHT - 4, number(float(low))), text(WIDTH - 8, HEIGHT - 4, number(float(high)), 'text-anchor="end"')]
    for i, (name, line) in enumerate(lines.items()):
        color = COLORS[i % len(COLORS)]
        path = " ".join(f"{LEFT + (x - low) / ((high - low) or 1) * wide:.1f},{20 + tall * (1 - y / top):.1f}" for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}"/>')
        parts.append(text(WIDTH - 8, 32 + 13 * i, name, f'fill="{color}" text-anchor="end"'))
    style = 'style="font:11px sans-serif;fill:currentColor"'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" {style}>{"".join(parts)}</svg>'
