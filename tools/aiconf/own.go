package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// requests is the number of requests of a replay. requests is much larger than the number in flight, so that start
// and end have little weight.
const requests = 4000

// interval is the time between arrivals at a load of 1, in ms.
const interval = 100

// planOwn returns the answer of replay plan: the highest load of each configuration. planOwn plans one worker of one
// pool and, in a closed loop, each split of the GPUs. The limits apply to the median request. In a closed loop the
// load is the number of requests in flight. Otherwise requests arrive at even gaps.
func planOwn(ctx context.Context, q *question, binary string, closed bool) (*answer, error) {
	a := newAnswer()
	for _, tp := range q.tps {
		r, err := q.findHighestLoad(ctx, binary, tp, closed, "--workers", "1")
		if err != nil {
			return nil, err
		}
		r.tokens /= float64(tp)
		keepBest(a.one, tp, r)
		if !closed { // the queue of two pools still grows when the last request arrives at even gaps
			continue
		}
		for _, s := range q.splits(tp) {
			r, err := q.findHighestLoad(ctx, binary, tp, closed, "--prefill-workers", strconv.Itoa(s[0]), "--decode-workers", strconv.Itoa(s[1]))
			if err != nil {
				return nil, err
			}
			r.tokens /= float64(q.gpus)
			r.split = fmt.Sprintf("%d+%d", s[0], s[1])
			keepBest(a.two, tp, r)
		}
	}
	return a, nil
}

// findHighestLoad returns the output tokens per second of a cluster at its highest load. findHighestLoad returns 0 if
// the model does not fit or no load meets the limits.
func (q *question) findHighestLoad(ctx context.Context, binary string, tp int, closed bool, pools ...string) (r rate, err error) {
	args := append([]string{
		"plan", "--input-tokens", strconv.Itoa(q.input), "--output-tokens", strconv.Itoa(q.output), "--request-count", strconv.Itoa(requests),
		"--gpu", q.gpu, "--model", q.model, "--tp", strconv.Itoa(tp), "--slo", fmt.Sprintf("p50:ttft=%dms,p50:tpot=%dms", q.ttft, q.tpot),
		"--vary", "none", "--resamples", "0", "--confidence", "0", "--front=false", "--output", "json",
	}, append(pools, q.flags...)...)
	if closed {
		args = append(args, "--max-in-flight", "8")
	} else {
		args = append(args, "--arrival-interval-ms", strconv.Itoa(interval))
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	exit := (*exec.ExitError)(nil)
	switch {
	case err != nil && strings.Contains(errs.String(), "does not fit on"):
		return r, nil
	case errors.As(err, &exit) && exit.ExitCode() == cli.ExitObjective: // no load meets the limits
	case err != nil:
		return r, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, &errs)
	}
	return q.readHighestLoad(out.Bytes(), closed)
}

// readHighestLoad reads the output tokens per second of a plan at its highest load. For even gaps readHighestLoad
// computes the tokens per second from the gap. The throughput of the replay would include the time after the last
// arrival.
func (q *question) readHighestLoad(text []byte, closed bool) (r rate, err error) {
	type loads struct {
		Highest *struct {
			Load   float64
			Tokens float64 `json:"output_throughput_tok_s"`
		} `json:"highest_load"`
	}
	var p struct{ Variants []loads }
	if err := json.Unmarshal(text, &p); err != nil {
		return r, err
	}
	for _, l := range p.Variants {
		switch {
		case l.Highest == nil:
		case closed:
			r.tokens = max(r.tokens, l.Highest.Tokens)
		default:
			r.tokens = max(r.tokens, l.Highest.Load*1000/interval*float64(q.output))
		}
	}
	return r, nil
}
