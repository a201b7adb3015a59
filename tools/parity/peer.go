package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// loop runs one replay per line of standard input in one process: starting the
// reference takes far longer than running it. A line is a list of arguments, or
// a schedule. Replies go to a descriptor of
// their own, since the reference writes to both standard streams.
const loop = `
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
`

// memoryKB bounds what an endless run of the reference may take.
const memoryKB = 4 << 20

// errEndless is a run of the reference that did not end in time.
var errEndless = errors.New("the reference did not end")

// findPython returns the Python interpreter that has the reference, installed when it
// is not there yet.
func findPython(ctx context.Context, script, version string) (string, error) {
	home := peerHome()
	python := filepath.Join(home, version, "bin", "python")
	if _, err := os.Stat(filepath.Join(home, version, "ready")); err == nil {
		return python, nil
	}
	if out, err := exec.CommandContext(ctx, script, version, "--help").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s %s --help: %w: %s", script, version, err, out)
	}
	return python, nil
}

// peerHome returns where the script installs the reference.
func peerHome() string {
	cache := cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(os.Getenv("HOME"), ".cache"))
	return cmp.Or(os.Getenv("REPLAY_PEER_HOME"), filepath.Join(cache, "replay-peer"))
}

// peer is the reference, kept running.
type peer struct {
	python   string
	patience time.Duration

	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan answer
}

// answer is how a run of the reference ended.
type answer struct {
	Code int    `json:"code"`
	Said string `json:"said"`
}

// run runs the reference with a list of arguments, or a schedule. The error is errEndless when
// it did not end, or died.
func (p *peer) run(ctx context.Context, what any) (answer, error) {
	if p.cmd == nil {
		if err := p.start(); err != nil {
			return answer{}, err
		}
	}
	text, err := json.Marshal(what)
	if err != nil {
		return answer{}, err
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", text); err != nil {
		p.stop()
		return answer{}, err
	}
	select {
	case a, ok := <-p.replies:
		if !ok {
			p.stop()
			return answer{}, fmt.Errorf("%w: its process ended", errEndless)
		}
		return a, nil
	case <-time.After(p.patience):
		p.stop()
		return answer{}, fmt.Errorf("%w in %v", errEndless, p.patience)
	case <-ctx.Done():
		p.stop()
		return answer{}, ctx.Err()
	}
}

func (p *peer) start() error {
	p.cmd = exec.Command("bash", "-c", fmt.Sprintf(`ulimit -v %d; exec "$0" -u -c "$1"`, memoryKB), p.python, loop)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start the reference: %w", err)
	}
	p.in, p.replies = in, make(chan answer, 1)
	go func(replies chan<- answer) {
		defer close(replies)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var a answer
			if json.Unmarshal(lines.Bytes(), &a) == nil {
				replies <- a
			}
		}
	}(p.replies)
	return nil
}

func (p *peer) stop() {
	if p.cmd == nil {
		return
	}
	p.in.Close()
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()
	for range p.replies {
	}
	p.cmd = nil
}
