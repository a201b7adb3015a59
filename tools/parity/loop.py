# Runs the reference once for each line of standard input, in one process, because starting the
# reference takes far longer than a run. A line is a list of arguments or a schedule. Replies go to a
# separate descriptor, because the reference writes to both standard streams.
import contextlib, io, json, os, runpy, sys
reply = os.fdopen(os.dup(1), "w")
quiet = os.open(os.devnull, os.O_WRONLY)
os.dup2(quiet, 1)
os.dup2(quiet, 2)
def step(job):
    from dynamo._core import KvRouterConfig, MockEngineArgs, PlannerReplayBridge
    engines = [MockEngineArgs.from_json(e) for e in job["engines"]]
    config = KvRouterConfig.from_json(job["router_config"]) if job["router_config"] else None
    make = PlannerReplayBridge if len(engines) == 1 else PlannerReplayBridge.create_disagg
    bridge = make(
        job["trace"], *engines, *job["workers"], router_mode=job["router_mode"], router_config=config,
        arrival_speedup_ratio=job["arrival_speedup_ratio"], trace_block_size=job["trace_block_size"])
    seen = []
    for call in job["calls"]:
        if call["do"] == "advance":
            seen.append(bridge.advance_to(call["until"]))
        elif call["do"] == "drain":
            seen.append(bridge.drain_traffic())
        else:
            bridge.apply_scaling(call["prefill"], call["decode"])
    with open(job["out"], "w") as out:
        json.dump({"seen": seen, "report": bridge.finalize()}, out)

for text in sys.stdin:
    job = json.loads(text)
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            if isinstance(job, dict):
                step(job)
            else:
                sys.argv = ["replay"] + job
                runpy.run_module("dynamo.replay", run_name="__main__")
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        except BaseException as e:
            code = 1
            said.write(f"{type(e).__name__}: {e}")
    print(json.dumps({"code": code, "said": said.getvalue()[-400:]}), file=reply, flush=True)
