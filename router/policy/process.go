package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// Process is a policy in a program of the user, which answers line by line (docs/policies.md "A policy in a
// program").
type Process struct {
	Command string
	Facts   []string      `json:",omitempty"` // facts that the program reads; known after its start
	Timeout time.Duration `json:"-"`          // limit of an answer, in real time
}

// Describe returns a description in one line. signals are the ages of the signals that the program reads.
func (p *Process) Describe(signals router.Signals) string {
	text := "the program " + p.Command
	if open := slices.DeleteFunc(slices.Clone(p.Facts), isOracle); len(open) > 0 {
		text += "; it receives " + strings.Join(open, ", ")
	}
	return text + describeSight(slices.Clone(p.Facts), signals)
}

// isOracle reports whether no real router knows a fact.
func isOracle(name string) bool { return strings.HasPrefix(name, oracle) }

// ProcessName is the name in reports of a router with a Process.
const ProcessName Name = "process"

// Asker is a running program.
type Asker interface {
	// Ask sends a line and returns the answer, which is valid until the next call.
	Ask(line []byte) ([]byte, error)
	// Refuse returns the error of an invalid answer.
	Refuse(answer []byte, want string) error
}

// process is the policy of a running program.
type process struct {
	sight
	asker Asker
	needs router.Needs
	facts []fact
	err   error // after an error the program chooses no worker

	line   []byte
	listed []sim.WorkerID // the workers of ids
	ids    []byte
	column []float64
	memory []fraction // latest text of the facts: all workers of the first fact, then of the next

	mayHold bool // of the current decision
	batch   batch
}

// batch is requests that are decided on together, with their workers.
type batch struct {
	requests []*sim.Request
	workers  []sim.WorkerID
	next     int // index of the request to be placed next, unless it is held or shed
}

// processVersion is the version of the protocol.
const processVersion = 1

// greeting is the first line that a program receives.
type greeting struct {
	Protocol    string          `json:"protocol"`
	Version     int             `json:"version"`
	Role        string          `json:"role"`
	BlockTokens int             `json:"block_tokens"`
	Seed        uint64          `json:"seed"`
	Workers     []greetedWorker `json:"workers"`
	Facts       []string        `json:"facts"`
}

// greetedWorker is the description of a worker in a greeting.
type greetedWorker struct {
	ID         int     `json:"id"`
	Kind       string  `json:"kind,omitempty"`
	Speed      float64 `json:"speed"`
	Cost       float64 `json:"cost,omitempty"`
	PassTokens int     `json:"pass_tokens"`
}

// response is the answer to a greeting.
type response struct {
	Version int      `json:"version"`
	Facts   []string `json:"facts"`
	Batch   bool     `json:"batch"`
	Hold    bool     `json:"hold"`
	Sent    struct {
		Blocks int     `json:"blocks"`
		Ms     float64 `json:"ms"`
	} `json:"sent"`
}

// listNumbers returns the facts that a program may read: the numeric facts, and whether it may hold the request.
func listNumbers() []fact {
	mayHold := fact{Name: formula.Name{Name: "may_hold", Kind: formula.Integer}} // appendDecision sets it
	return append(slices.DeleteFunc(listFacts(), func(f fact) bool { return f.Kind == formula.Text }), mayHold)
}

// NewProcess sends a greeting to a program and returns its policy. The policy is also a router.Admission if the
// program holds requests, and a router.Batcher if the program decides on several requests together.
func NewProcess(a Asker, o Options) (router.Policy, error) {
	p := &process{sight: makeSight(o), asker: a}
	line, err := json.Marshal(p.greet())
	if err != nil {
		return nil, err
	}
	answer, err := a.Ask(append(line, '\n'))
	if err != nil {
		return nil, err
	}
	r, want := readResponse(answer)
	if want == "" {
		want = p.addFacts(r)
	}
	switch {
	case want != "":
		return nil, a.Refuse(answer, want)
	case r.Hold:
		return &holdingProcess{process: p}, nil
	case r.Batch:
		return &batchProcess{p}, nil
	}
	return p, nil
}

// greet returns the greeting.
func (p *process) greet() *greeting {
	g := &greeting{Protocol: "replay-policy", Version: processVersion, Role: p.Role.String(), BlockTokens: p.BlockTokens, Seed: p.Seed, Workers: []greetedWorker{}}
	for i := range p.Workers {
		w := &p.Workers[i]
		g.Workers = append(g.Workers, greetedWorker{i, w.Kind, w.Speed, w.Cost, p.passTokens(sim.WorkerID(i))})
	}
	for _, f := range listNumbers() {
		g.Facts = append(g.Facts, f.Name.Name)
	}
	return g
}

// readResponse parses the answer to a greeting. want is the required form, "" if the answer is valid.
func readResponse(answer []byte) (r *response, want string) {
	d := json.NewDecoder(bytes.NewReader(answer))
	d.DisallowUnknownFields()
	err := d.Decode(&r)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more behind it")
		}
	}
	const like = `an object such as {"version": 1, "facts": ["requests"]}`
	switch {
	case err != nil:
		return nil, like + ": " + strings.TrimPrefix(err.Error(), "json: ")
	case r == nil:
		return nil, like
	case r.Version != processVersion:
		return nil, fmt.Sprintf("version %d", processVersion)
	case r.Hold && r.Batch:
		return nil, "hold or batch: what is held is decided on anew, request by request"
	case r.Sent.Blocks < 0 || !(r.Sent.Ms >= 0) || math.IsInf(r.Sent.Ms, 0):
		return nil, "sent with blocks and ms of at least 0"
	}
	return r, ""
}

// addFacts adds the facts that the program reads. addFacts returns the required form, "" if all facts are valid.
func (p *process) addFacts(r *response) (want string) {
	all := listNumbers()
	var names []string
	for _, f := range all {
		names = append(names, f.Name.Name)
	}
	for _, name := range r.Facts {
		i := slices.Index(names, name)
		switch {
		case i < 0:
			return fmt.Sprintf("facts of the greeting: there is no %s%s", name, nearest.Ask(name, names))
		case name == "cost" && slices.ContainsFunc(p.Workers, func(w Worker) bool { return w.Cost == 0 }):
			return "workers with the price of a GPU (--gpu) where the program asks for cost"
		}
		p.facts = append(p.facts, all[i])
		if need := all[i].need; need != nil {
			p.needs.Running = true
			need(&p.needs, p.Role)
		}
	}
	if slices.Contains(r.Facts, sentBlocks) {
		p.rememberSent(TextMemory{r.Sent.Blocks, sim.Time(r.Sent.Ms)})
	}
	return ""
}

func (p *process) Needs() router.Needs { return p.needs }

// Err returns the error after which the program chooses no worker.
func (p *process) Err() error { return p.err }

// LooksAt returns the names of the facts that the program reads.
func (p *process) LooksAt() []string {
	var names []string
	for _, f := range p.facts {
		names = append(names, f.Name.Name)
	}
	return names
}

// Choose returns the program's choice for a request.
func (p *process) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	p.line = append(p.appendDecision(p.line[:0], q, c), '\n')
	answer := p.ask()
	if p.err != nil {
		return noChoice()
	}
	w, ok := parseWorker(answer)
	if !ok || !slices.Contains(c.Workers, w) {
		return p.refuse(answer, "the id of "+describeWorkers(c.Workers))
	}
	return p.choose(q, c, w)
}

// choose returns the choice of w, and records that q is sent to w.
func (p *process) choose(q *sim.Request, c *router.Candidates, w sim.WorkerID) router.Choice {
	if p.sent != nil {
		p.sent.add(c.Now, w, &q.Prompt, q.Prompt.Blocks)
	}
	return router.Choice{Worker: w, Second: router.None}
}

// noChoice returns the choice of no worker.
func noChoice() router.Choice { return router.Choice{Worker: router.None, Second: router.None} }

// ask sends p.line and returns the answer. ask returns nil after an error.
func (p *process) ask() []byte {
	if p.err != nil {
		return nil
	}
	var answer []byte
	answer, p.err = p.asker.Ask(p.line)
	return answer
}

// refuse records the error of an invalid answer.
func (p *process) refuse(answer []byte, want string) router.Choice {
	p.err = p.asker.Refuse(answer, want)
	return noChoice()
}

// describeWorkers returns a text with the ids of workers.
func describeWorkers(all []sim.WorkerID) string {
	const most = 8
	var ids []string
	for _, w := range all[:min(len(all), most)] {
		ids = append(ids, strconv.Itoa(int(w)))
	}
	text := "a worker: " + strings.Join(ids, ", ")
	if len(all) > most {
		text += fmt.Sprintf(" ... %d", all[len(all)-1])
	}
	return text
}

// appendDecision appends a decision in JSON: the ids of the workers, then each fact as a single value or as a list by
// worker.
func (p *process) appendDecision(to []byte, q *sim.Request, c *router.Candidates) []byte {
	p.request, p.candidates, p.workers = q, c, c.Workers
	if !slices.Equal(p.listed, c.Workers) {
		p.listWorkers(c.Workers)
	}
	to = append(append(to, '['), p.ids...)
	for i := range p.facts {
		to = append(to, ',')
		f := &p.facts[i]
		switch {
		case f.load == nil:
			to = appendBool(to, p.mayHold)
		case !f.Each:
			f.load(&p.sight, p.column[:1])
			to = appendNumber(to, p.column[0])
		default:
			f.load(&p.sight, p.column)
			to = append(to, '[')
			seen := p.memory[i*len(p.column):]
			for k, x := range p.column {
				if k > 0 {
					to = append(to, ',')
				}
				to = seen[k].append(to, x)
			}
			to = append(to, ']')
		}
	}
	return append(to, ']')
}

// listWorkers formats the ids of a new list of workers.
func (p *process) listWorkers(all []sim.WorkerID) {
	p.listed = append(p.listed[:0], all...)
	p.column = slices.Grow(p.column[:0], len(all))[:len(all)]
	p.memory = slices.Grow(p.memory[:0], len(all)*len(p.facts))[:len(all)*len(p.facts)]
	p.ids = append(p.ids[:0], '[')
	for i, w := range all {
		if i > 0 {
			p.ids = append(p.ids, ',')
		}
		p.ids = strconv.AppendInt(p.ids, int64(w), 10)
	}
	p.ids = append(p.ids, ']')
}
