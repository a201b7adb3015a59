package schedulertest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// RunTranscripts replays the transcripts in a folder of the caller, file by file, on cores from build. RunTranscripts
// compares the results with the files. go test -rewrite writes the results to the files instead; read the difference
// before you commit it.
//
// A transcript consists of prose, commands and their output. Each case has a sentence above it and starts a new
// engine. The output of its commands is below the separator line.
//
//	# The second request waits: one prompt fills all four blocks.
//	core blocks=4 block=4 seqs=2 budget=32
//	submit 0 tokens=1x16 out=1
//	submit 1 tokens=2x8 out=1
//	step
//	----
//	pass 0 to 12
//	admit 0 reused=0
//	prefill 0 prompt=16 after=0
//	tokens=1 only=0
//	running=0 waiting=1 held=0 cached=4 free=0
//
// The commands are
//
//	core blocks=N block=N [seqs=N] [budget=N] [prefill=MS] [decode=MS] [capture=events|residency|none] [role=prefill|decode] ...
//		creates an engine with N KV blocks of N tokens each. At most seqs
//		requests (8) run, and a pass computes at most budget tokens (64). A
//		pass that computes prompts takes prefill ms (10), and a pass that
//		decodes takes decode ms (2); a pass with both takes their sum. The
//		remaining arguments are specific to the engine, and build reads them.
//	submit ID tokens=CxN[,CxN...] out=N
//		queues a request. The prompt consists of N tokens of content C, for
//		each CxN in order; prompts that begin with the same contents share
//		blocks. Only the last content may end inside a block.
//	step [at=MS] [until=MS]
//		runs the next pass or run of passes, from the end of the previous
//		pass by default.
//	run [until=MS]
//		runs passes until no request is left.
//	cut keep=N
//		undoes the passes of the latest run after the first N.
//	cancel ID
//		cancels a request.
//	snapshot, progress
//		prints the data of the latest pass for planners, or the progress of
//		requests.
//
// Blocks are named by content and index, as in 1.0 and 1.1. Blocks with generated tokens are named g1, g2 and so on
// in the order of their appearance.
func RunTranscripts(t *testing.T, folder string, build func(*Engine) (scheduler.Core, error)) {
	datadriven.Walk(t, folder, func(t *testing.T, path string) {
		s := transcript{build: build}
		datadriven.RunTest(t, path, s.run)
	})
}

// Engine is a core line of a transcript: the settings of an engine.
type Engine struct {
	Setup
	Role    scheduler.Role
	Clock   timing.Clock
	Capture scheduler.Capture
	args    map[string]string
	read    map[string]bool
	err     error
}

// Int returns the argument of that name, or preset if there is none.
func (e *Engine) Int(name string, preset int) int {
	e.scan(name, &preset)
	return preset
}

// Float returns the argument of that name, or preset if there is none.
func (e *Engine) Float(name string, preset float64) float64 {
	e.scan(name, &preset)
	return preset
}

// scan parses the argument of that name, if it is given, into number.
func (e *Engine) scan(name string, number any) {
	if text := e.Text(name, ""); text != "" {
		if _, err := fmt.Sscan(text, number); err != nil {
			e.err = fmt.Errorf("%s=%s, must be a number", name, text)
		}
	}
}

// Text returns the argument of that name, or preset if there is none.
func (e *Engine) Text(name, preset string) string {
	e.read[name] = true
	if text, ok := e.args[name]; ok {
		return text
	}
	return preset
}

// Has reports whether the argument of that name is given.
func (e *Engine) Has(name string) bool {
	e.read[name] = true
	_, ok := e.args[name]
	return ok
}

// constant is a timing model with fixed durations of the prefill and decode parts of a pass, in ms.
type constant struct{ prefill, decode float64 }

func (c constant) Prefill(_, _, _ int) float64   { return c.prefill }
func (c constant) Decode(_, _, _, _ int) float64 { return c.decode }
func (c constant) ByContext() bool               { return false }

// transcript is the state of one transcript while it runs.
type transcript struct {
	build    func(*Engine) (scheduler.Core, error)
	core     scheduler.Core
	tree     *prompt.Tree
	requests map[string]*sim.Request
	names    blockNames
	pass     scheduler.Pass
	now      sim.Time
}

// run executes the commands of a case, or of a part of a case, and returns their output.
func (s *transcript) run(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range append([]string{d.FullCmd()}, strings.Split(d.Input, "\n")...) {
		cmd, args, err := datadriven.ParseLine(line)
		if err == nil && cmd != "" {
			var text string
			text, err = s.runCommand(cmd, args)
			if text != "" {
				out.WriteString(strings.TrimSuffix(text, "\n") + "\n")
			}
		}
		if err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
	}
	return out.String()
}

// runCommand executes one command.
func (s *transcript) runCommand(cmd string, list []datadriven.CmdArg) (out string, err error) {
	args, id := make(map[string]string), ""
	for _, a := range list {
		if len(a.Vals) == 0 && id == "" && cmd != "core" {
			id = a.Key
		} else {
			args[a.Key] = strings.Join(a.Vals, ",")
		}
	}
	e := &Engine{args: args, read: make(map[string]bool)}
	if cmd != "core" && s.core == nil {
		return "", errors.New("must be a core first")
	}
	switch cmd {
	case "core":
		out = s.startCore(e)
	case "submit":
		out = s.submitRequest(e, id)
	case "step":
		s.now = max(s.now, sim.Time(e.Float("at", 0)))
		out = s.stepCore(sim.Time(e.Float("until", 0)))
	case "run":
		out = s.runAll(sim.Time(e.Float("until", 1e300)))
	case "cut":
		keep := e.Int("keep", 1)
		if keep < 1 || keep > s.pass.Count {
			return "", fmt.Errorf("the run has %d passes", s.pass.Count)
		}
		s.core.Cut(&s.pass, keep)
		s.now = s.pass.End
		out = s.describePass()
	case "cancel":
		out = s.cancelRequest(id)
	case "snapshot":
		out = fmt.Sprintf("%+v", s.core.Snapshot(&s.pass))
	case "progress":
		s.core.Progress(func(id sim.RequestID, tokens int, last sim.Time) {
			out += fmt.Sprintf("request %d has %d tokens, the latest at %v\n", id, tokens, last)
		})
	default:
		e.err = errors.New("unknown command")
	}
	for name := range args {
		if !e.read[name] && e.err == nil {
			e.err = fmt.Errorf("unknown argument %s", name)
		}
	}
	return out, e.err
}

// startCore starts a new engine.
func (s *transcript) startCore(e *Engine) string {
	block := e.Int("block", 4)
	s.tree = prompt.NewTree(block, block, prompt.Options{})
	e.Setup = Setup{
		Tree: s.tree, BlockTokens: block, Blocks: e.Int("blocks", 16),
		MaxSeqs: e.Int("seqs", 8), MaxBatchedTokens: e.Int("budget", 64),
	}
	e.Clock = timing.Clock{
		Model: constant{e.Float("prefill", 10), e.Float("decode", 2)}, Speedup: 1, DecodeSpeedup: 1,
	}
	captures := map[string]scheduler.Capture{
		"events": scheduler.CaptureEvents, "residency": scheduler.CaptureResidency, "none": scheduler.CaptureNone,
	}
	roles := map[string]scheduler.Role{"": scheduler.Aggregated, "prefill": scheduler.Prefill, "decode": scheduler.Decode}
	var ok, known bool
	e.Capture, ok = captures[e.Text("capture", "none")]
	e.Role, known = roles[e.Text("role", "")]
	if !ok || !known {
		e.err = fmt.Errorf("capture=%s role=%s: expected events, residency or none, and prefill, decode or none", e.Text("capture", ""), e.Text("role", ""))
		return ""
	}
	s.requests, s.now, s.names = make(map[string]*sim.Request), 0, newBlockNames()
	s.pass = scheduler.Pass{Detail: new(scheduler.Detail)}
	s.core, e.err = s.build(e)
	return ""
}

// submitRequest queues a request. The argument tokens names the contents of its prompt.
func (s *transcript) submitRequest(e *Engine, id string) string {
	r := &sim.Request{ID: sim.RequestID(len(s.requests)), OutputTokens: e.Int("out", 1), Priority: int32(e.Int("priority", 0)), Arrived: s.now}
	if n, err := strconv.Atoi(id); err == nil {
		r.ID = sim.RequestID(n)
	}
	var ids []uint64
	var names []string
	block := s.tree.BlockTokens()
	for _, piece := range strings.Split(e.Text("tokens", ""), ",") {
		var content, tokens int
		if _, err := fmt.Sscanf(piece, "%dx%d", &content, &tokens); err != nil || r.InputTokens%block != 0 {
			e.err = fmt.Errorf("tokens=%s: expected contents such as 1x8,2x3, whole blocks of %d but for the last", e.Text("tokens", ""), block)
			return ""
		}
		for k := 0; k*block < tokens; k++ {
			ids = append(ids, uint64(content)<<20|uint64(k))
			names = append(names, fmt.Sprintf("%d.%d", content, k))
		}
		r.InputTokens += tokens
	}
	r.Prompt = s.tree.Add(ids, r.InputTokens)
	for i, n := range r.Prompt.Nodes {
		s.names.nodes[n] = names[i]
		s.names.hashes[s.tree.SequenceHash(n, 0)] = names[i]
	}
	s.requests[id] = r
	s.core.Submit(r)
	return ""
}

// stepCore runs a pass, or a run of passes with until as the limit.
func (s *transcript) stepCore(until sim.Time) string {
	if s.core.Load() == 0 {
		return "idle"
	}
	if err := s.core.Step(s.now, until, &s.pass); err != nil {
		return fmt.Sprintf("error: %v", err)
	}
	if until > 0 {
		s.pass.EndWait(until)
	}
	s.now = s.pass.End
	s.core.ReportIdle(&s.pass)
	return s.describePass()
}

// maxLines limits the output of one command.
const maxLines = 500

// runAll runs passes until no request is left.
func (s *transcript) runAll(until sim.Time) string {
	var out strings.Builder
	for s.core.Load() > 0 && s.now < until && strings.Count(out.String(), "\n") < maxLines {
		step := s.stepCore(until)
		out.WriteString(step)
		if strings.HasPrefix(step, "error") {
			break
		}
	}
	return out.String()
}

// cancelRequest cancels a request.
func (s *transcript) cancelRequest(id string) string {
	r := s.requests[id]
	if r == nil || !s.core.Cancel(s.now, r.ID, &s.pass) {
		return "not here"
	}
	return s.describePass()
}
