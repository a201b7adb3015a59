package plans

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/choices"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/html"
)

// surroundings are the inputs and outputs of a plan in addition to its flags.
type surroundings struct {
	cli.Streams
	show  func(done, expected int) // progress in replays
	watch func(Stage)              // called after each step of a search
	open  func(context.Context, *replay.Spec) (*loadgen.Workload, error)
}

// newSurroundings returns the surroundings of a command.
func newSurroundings(s cli.Streams, progress *cli.Progress) *surroundings {
	return &surroundings{
		Streams: s, show: progress.Show, watch: func(at Stage) { progress.Describe(at.describe()) },
		open: func(ctx context.Context, spec *replay.Spec) (*loadgen.Workload, error) {
			w, err := spec.Open(ctx, replay.Streams{Stdin: s.In, Warn: s.Warn})
			if err == nil {
				w.ShareTrees()
			}
			return w, err
		},
	}
}

// Stage is the progress of a plan's search.
type Stage struct {
	Round  int    `json:"round"` // from 1
	Rounds int    `json:"rounds"`
	Done   int    `json:"done"` // choices of settings of the round
	All    int    `json:"all"`
	Best   string `json:"best"` // the cluster that costs least so far; "": none
	GPUs   int    `json:"gpus"` // of it
}

// describe returns the stage in a few words.
func (s *Stage) describe() string {
	text := fmt.Sprintf("round %d: %d/%d", s.Round, s.Done, s.All)
	if s.Best != "" {
		text += ", best " + countGPUs(s.GPUs)
	}
	return text
}

// stageOf returns the stage of a search in readable form.
func (r *planRunner) stageOf(at plan.Stage) Stage {
	s := Stage{Round: at.Round, Rounds: at.Rounds, Done: at.Done, All: at.All}
	if m := at.Best; m != nil {
		v := &r.choices[m.Variant].variant
		s.GPUs = v.GPUsOf(m.Shape)
		s.Best = strings.TrimSuffix(m.Shape.String()+", "+v.Name, ", ")
	}
	return s
}

// Query is a request of a program for a plan.
type Query struct {
	Flags []plan.Setting // of replay plan
	Trace string         // file name, for the command line
	// Open reads the workload of a replay.
	Open func(context.Context, *replay.Spec) (*loadgen.Workload, error)
	// Show receives the number of finished replays and an estimate of their total. Watch receives the stage of the
	// search.
	Show  func(done, expected int)
	Watch func(Stage)
}

// Reply is the result of a plan, for a page.
type Reply struct {
	Answer  *html.Answer `json:"answer"`
	Command string       `json:"command"` // that finds the same
	// Settings are the flags for a replay of the recommended cluster, without the trace; nil: no cluster is
	// recommended.
	Settings map[string]string `json:"settings"`
}

// Find runs the plan.
func (q *Query) Find(ctx context.Context) (*Reply, error) {
	o, f := &options.Options{}, &planFlags{}
	cmd := newPlanCommand(o, f)
	args := []string{"plan", q.Trace}
	for _, s := range q.Flags {
		args = append(args, "--"+s.Name+"="+s.Value)
	}
	if err := cmd.ParseFlags(args[2:]); err != nil {
		return nil, cli.Usagef("%v", err)
	}
	if err := f.checkFlags(o); err != nil {
		return nil, err
	}
	env := &surroundings{Streams: cli.Streams{Out: io.Discard, Err: io.Discard, Args: args}, show: q.Show, watch: q.Watch, open: q.Open}
	sheet, err := f.findSheet(ctx, env, o, q.Trace)
	if err != nil {
		return nil, err
	}
	return &Reply{Answer: sheet.makeAnswer(), Command: cli.QuoteCommand(args), Settings: sheet.recommendedSettings()}, nil
}

// recommendedSettings returns the flags for a replay of the recommended cluster, nil if there is none.
func (p *planSheet) recommendedSettings() map[string]string {
	a := p.shownAnswer()
	shape, _, ok := p.recommend(a)
	if !ok && !a.Found {
		return nil
	}
	if !ok {
		shape = a.Shape
	}
	all := map[string]string{}
	for _, s := range p.runner.choices[a.Variant].settings {
		all[s.Name] = s.Value
	}
	delete(all, options.TraceSetting)
	for name, n := range map[string]int{"workers": shape.Workers, "prefill-workers": shape.Prefill, "decode-workers": shape.Decode} {
		if delete(all, name); n > 0 {
			all[name] = strconv.Itoa(n)
		}
	}
	return all
}

// Varied is a setting that a plan chooses by default.
type Varied struct {
	Name  string   `json:"name"` // as --fix takes it
	Label string   `json:"label"`
	Flags []string `json:"flags"` // that define it
}

// ListVaried returns all settings that a plan chooses by default.
func ListVaried() []Varied {
	labels := map[string]string{
		choices.TP: "parallelism (TP, EP, DP)", choices.Budget: "token budget of a pass", choices.Router: "router", choices.Topology: "prefill and decode pools",
	}
	var all []Varied
	for _, name := range choices.Names() {
		all = append(all, Varied{Name: name, Label: labels[name], Flags: choices.FlagsOf(name)})
	}
	return all
}
