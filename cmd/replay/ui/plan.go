package ui

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/replay-llm/replay/cmd/replay/plans"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/explore"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
)

// planQuestion is a request of the page for the smallest cluster.
type planQuestion struct {
	View     string           `json:"view"`
	Settings explore.Settings `json:"settings"` // knobs, and flags of planFlags
}

// planFlags returns the flags of replay plan that the page sets in addition to the settings of a replay.
func planFlags() []string {
	return []string{"fix", "time-budget", "replays", "growth", "confidence", "resamples", "front"}
}

// flags returns the replay settings of the question, and all its flags for replay plan. Several GPUs are one flag.
func (q *planQuestion) flags() (knobs explore.Settings, all []plan.Setting) {
	knobs = maps.Clone(q.Settings)
	for _, name := range slices.Sorted(maps.Keys(q.Settings)) {
		if slices.Contains(planFlags(), name) {
			delete(knobs, name)
		}
		if name != options.TraceSetting {
			all = append(all, plan.Setting{Name: name, Value: q.Settings[name]})
		}
	}
	return knobs, all
}

// checkGPUs rejects a list of GPUs with a GPU that the page does not offer, and removes the list from the settings.
func checkGPUs(knobs explore.Settings, offered []explore.Knob) error {
	i := slices.IndexFunc(offered, func(k explore.Knob) bool { return k.Flag == "gpu" })
	if gpus, ok := knobs["gpu"]; ok && strings.Contains(gpus, ",") {
		for _, gpu := range strings.Split(gpus, ",") {
			if !slices.Contains(offered[i].Choices, gpu) {
				return cli.Usagef("gpu=%s: must be some of %s%s", gpu, strings.Join(offered[i].Choices, ", "), nearest.Ask(gpu, offered[i].Choices))
			}
		}
		delete(knobs, "gpu")
	}
	return nil
}

// planLine is a line of the answer to a planQuestion: its progress or, in the last line, its result.
type planLine struct {
	Done     int              `json:"done,omitempty"` // replays
	Expected int              `json:"expected,omitempty"`
	Stage    *plans.Stage     `json:"stage,omitempty"` // of the search of settings
	Found    *plans.Reply     `json:"found,omitempty"`
	Refused  *explore.Refusal `json:"refused,omitempty"`
}

// progressEvery is the time between two lines of progress.
const progressEvery = 200 * time.Millisecond

// lines writes the lines of an answer while the search runs.
type lines struct {
	w     http.ResponseWriter
	mutex sync.Mutex
	last  time.Time // of the last line of progress
	stage *plans.Stage
}

// show writes a line of progress, unless the last line is recent.
func (l *lines) show(done, expected int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if time.Since(l.last) >= progressEvery {
		l.last = time.Now()
		l.write(&planLine{Done: done, Expected: expected, Stage: l.stage})
	}
}

// watch stores the stage of the search for the next line.
func (l *lines) watch(at plans.Stage) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.stage = &at
}

// write writes a line. If the page has closed the connection, the context of its question has ended.
func (l *lines) write(line *planLine) {
	text, err := json.Marshal(line)
	if err != nil {
		text = []byte(`{"refused": {"error": "the answer is no JSON"}}`)
	}
	l.w.Write(append(text, '\n'))
	if f, ok := l.w.(http.Flusher); ok {
		f.Flush()
	}
}

// answerPlan searches for the smallest cluster, and writes lines of JSON with progress and result. The search ends if
// the page closes the connection or requests another plan.
func (s *site) answerPlan(w http.ResponseWriter, r *http.Request) {
	var q planQuestion
	err := readQuestion(w, r, &q)
	w.Header().Set("Content-Type", "application/x-ndjson")
	l := &lines{w: w}
	var found *plans.Reply
	if err == nil {
		ctx, done := s.session.Newest(r.Context(), "plan of "+q.View)
		defer done()
		found, err = s.findPlan(ctx, &q, l)
	}
	switch {
	case errors.Is(err, context.Canceled):
		l.write(&planLine{Refused: &explore.Refusal{Error: "the search was cancelled"}})
	case err != nil:
		refused := explore.Refuse(err)
		l.write(&planLine{Refused: &refused})
	default:
		l.write(&planLine{Found: found})
	}
}

// findPlan finds the smallest cluster.
func (s *site) findPlan(ctx context.Context, q *planQuestion, l *lines) (*plans.Reply, error) {
	knobs, flags := q.flags()
	if err := checkGPUs(knobs, s.session.Knobs()); err != nil {
		return nil, err
	}
	file, open, err := s.session.OpenTrace(knobs)
	if err != nil {
		return nil, err
	}
	query := plans.Query{
		Flags: flags, Trace: file, Show: l.show, Watch: l.watch,
		Open: func(_ context.Context, spec *replay.Spec) (*loadgen.Workload, error) { return open(spec) },
	}
	return query.Find(ctx)
}
