"""Print counts of a timeline, from Perfetto's trace processor. Without an argument, check that the processor can start.

PERFETTO_TRACE_PROCESSOR is the program of the processor. Without it, the package perfetto downloads the processor.
"""
import os
import sys

from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

PASSES = "extract_arg(arg_set_id, 'args.passes')"
TOKENS = "extract_arg(arg_set_id, 'args.tokens')"
PROMPT = "extract_arg(arg_set_id, 'args.prompt_tokens')"

# A lane is a slice of the process requests. The slices inside a lane must have the same total duration as the lane.
LANES = """
select count(*) v from slice lane join process_track t on t.id = lane.track_id join process using (upid)
where process.name = 'requests' and lane.name glob 'request [0-9]*' and lane.depth = 0
  and lane.dur = (select sum(dur) from slice inside where inside.parent_id = lane.id)
"""

COUNTS = {
    "passes": f"select sum({PASSES}) v from slice",
    "tokens": f"select sum({PASSES} * {TOKENS}) v from slice",
    "decisions": f"select count(*) v from slice where {PROMPT} is not null and {PASSES} is null",
    "lanes": LANES,
    "arrows": "select count(*) v from flow",
    "errors": "select count(*) v from stats where severity in ('error', 'data_loss') and value > 0",
}

config = TraceProcessorConfig(bin_path=os.environ.get("PERFETTO_TRACE_PROCESSOR") or None)
with TraceProcessor(trace=sys.argv[1] if sys.argv[1:] else None, config=config) as tp:
    if sys.argv[1:]:
        print(*(f"{name} {int(next(iter(tp.query(sql))).v or 0)}" for name, sql in COUNTS.items()))
