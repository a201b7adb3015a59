"""Counts what Perfetto's trace processor finds in a timeline."""
import sys

from perfetto.trace_processor import TraceProcessor


def one(tp, sql):
    """The value of a query with one row and one column named v."""
    return next(iter(tp.query(sql))).v or 0


with TraceProcessor(trace=sys.argv[1]) as tp:
    arg = "extract_arg(arg_set_id, 'args.%s')"
    passes, tokens = arg % "passes", arg % "tokens"
    print(
        "passes", int(one(tp, f"select sum({passes}) v from slice")),
        "tokens", int(one(tp, f"select sum({passes} * {tokens}) v from slice")),
        "decisions", one(tp, f"select count(*) v from slice where {arg % 'prompt_tokens'} is not null and {passes} is null"),
        "lanes", one(tp, "select count(*) v from slice where name glob 'request [0-9]*' and cat = 'request'"),
        "errors", one(tp, "select count(*) v from stats where severity = 'error' and value > 0"),
    )
