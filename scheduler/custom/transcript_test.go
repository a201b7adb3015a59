package custom_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/custom"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/sim"
)

// scripted plans the passes of its text: passes with a slash between them, the last again and again, of 3:16 (16 tokens of
// request 3), -3 (it loses its place), ~5 (wait for 5 ms) and first (what FirstCome does).
type scripted struct {
	custom.Options
	passes []string
}

func (e *scripted) Plan(p *custom.Plan) {
	now := e.passes[0]
	if len(e.passes) > 1 {
		e.passes = e.passes[1:]
	}
	for _, act := range strings.Split(now, ",") {
		var id, tokens int
		var wait float64
		switch {
		case act == "first":
			(&custom.FirstCome{Options: e.Options}).Plan(p)
		case scan(act, "%d:%d", &id, &tokens):
			p.Compute(sim.RequestID(id), tokens)
		case scan(act, "~%g", &wait):
			p.WaitUntil(p.Now + sim.Time(wait))
		case scan(act, "-%d", &id):
			p.Preempt(sim.RequestID(id))
		}
	}
}

func scan(text, format string, into ...any) bool {
	n, err := fmt.Sscanf(text, format, into...)
	return err == nil && n == len(into)
}

// The transcripts of what is done around an engine. A core line also knows plan=, the passes of scripted, and
// nocache.
func TestTranscripts(t *testing.T) {
	schedulertest.RunTranscripts(t, "testdata", func(e *schedulertest.Engine) (scheduler.Core, error) {
		o := custom.Options{Blocks: e.Blocks, BlockTokens: e.BlockTokens, MaxSeqs: e.MaxSeqs, MaxBatchedTokens: e.MaxBatchedTokens, ChunkedPrefill: true, PrefixCaching: !e.Has("nocache")}
		c := custom.Config{Options: o, Clock: e.Clock, Tree: e.Tree, Told: e.Capture == scheduler.CaptureResidency}
		return custom.New(c, &scripted{o, strings.Split(e.Text("plan", "first"), "/")}), nil
	})
}
