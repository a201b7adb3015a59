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

// scripted plans the passes that its text lists, separated by slashes; the last pass is repeated. 3:16 computes 16
// tokens of request 3, -3 preempts it, ~5 waits for 5 ms, and first calls FirstCome.
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

// Transcripts of the core with engines. A core line also supports plan=, the passes of scripted, and nocache.
func TestTranscripts(t *testing.T) {
	schedulertest.RunTranscripts(t, "testdata", func(e *schedulertest.Engine) (scheduler.Core, error) {
		o := custom.Options{Blocks: e.Blocks, BlockTokens: e.BlockTokens, MaxSeqs: e.MaxSeqs, MaxBatchedTokens: e.MaxBatchedTokens, ChunkedPrefill: true, PrefixCaching: !e.Has("nocache")}
		c := custom.Config{Options: o, Clock: e.Clock, Tree: e.Tree, Told: e.Capture == scheduler.CaptureResidency}
		return custom.New(c, &scripted{o, strings.Split(e.Text("plan", "first"), "/")}), nil
	})
}
