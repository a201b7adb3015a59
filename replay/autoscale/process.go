package autoscale

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/sim"
)

// Program is a scaler in a program of the user, which answers line by line (docs/autoscaling.md, A program).
type Program struct {
	Command string        `yaml:"command" of:"process"`
	Timeout time.Duration `json:"-" yaml:"timeout" is:"timeout" of:"process"` // limit of an answer, in real time
}

// Asker is a running program.
type Asker interface {
	// Ask sends a line that ends in a line feed, and returns the answer. The answer is valid until the next call.
	Ask(line []byte) ([]byte, error)
	// Refuse returns the error of an invalid answer.
	Refuse(answer []byte, want string) error
}

// process is the scaler of a running program.
type process struct {
	c     *Config
	asker Asker
	reason
	facts []fact
	line  []byte
	// passes reports whether the program reads the latest pass of each worker and the traffic.
	passes bool
	err    error // after an error the program makes no decision
}

// processVersion is the version of the protocol.
const processVersion = 1

// scalerGreeting is the first line that a program receives.
type scalerGreeting struct {
	Protocol string   `json:"protocol"`
	Version  int      `json:"version"`
	Role     string   `json:"role"`
	Least    int      `json:"least"`
	Most     int      `json:"most"`
	Sync     sim.Time `json:"sync"`
	Seed     uint64   `json:"seed"`
	Facts    []string `json:"facts"`
	Engine   any      `json:"engine"` // known facts about a worker
}

// NewProcess sends a greeting to a program that scales workers, and returns its scaler.
func NewProcess(a Asker, c *Config, w Workers, seed uint64) (Scaler, error) {
	p := &process{c: c, asker: a, facts: ruleFacts()}
	g := scalerGreeting{"replay-scaler", processVersion, w.Role.String(), c.Min, c.Max, c.Sync, seed, nil, w.Engine}
	for _, f := range p.facts {
		g.Facts = append(g.Facts, f.Name.Name)
	}
	line, err := json.Marshal(&g)
	if err != nil {
		return nil, err
	}
	answer, err := a.Ask(append(line, '\n'))
	if err != nil {
		return nil, err
	}
	var r struct {
		Version int  `json:"version"`
		Passes  bool `json:"passes"`
	}
	const like = `{"version": 1}`
	if err := decodeAnswer(answer, &r); err != nil || r.Version != processVersion {
		return nil, a.Refuse(answer, like)
	}
	p.passes = r.Passes
	return p, nil
}

// decodeAnswer parses a JSON object that has only the keys of to, without further text.
func decodeAnswer(answer []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(answer))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more behind it")
	}
	return nil
}

// Want returns the program's answer, limited to the bounds.
func (p *process) Want(s *Signals) int {
	if p.err != nil {
		return s.Workers
	}
	n, err := p.ask(s)
	if err != nil {
		p.err = fmt.Errorf("tick at %gs: %w", float64(s.Now)/1000, err)
		return s.Workers
	}
	kept := min(max(n, p.c.Min), p.c.Max)
	if kept != n {
		p.why += fmt.Sprintf("; bounds allow %d", kept)
	}
	return kept
}

// Err returns the error after which the program makes no decision.
func (p *process) Err() error { return p.err }

// ask sends a tick and returns the number of workers in the program's answer.
func (p *process) ask(s *Signals) (int, error) {
	p.line = append(p.appendTick(p.line[:0], s), '\n')
	answer, err := p.asker.Ask(p.line)
	if err != nil {
		return 0, err
	}
	n, why, want := readWanted(answer)
	if want != "" {
		return 0, p.asker.Refuse(answer, want)
	}
	if p.why = why; why == "" {
		p.why = fmt.Sprintf("the program wants %d", n)
	}
	return n, nil
}

// appendTick appends the facts of a tick as an object: single values, then lists by worker. Facts from a scrape are
// null before the first scrape.
func (p *process) appendTick(to []byte, s *Signals) []byte {
	to = append(to, '{')
	for _, each := range []bool{false, true} {
		for i := range p.facts {
			if f := &p.facts[i]; f.Each == each {
				to = append(append(append(to, '"'), f.Name.Name...), `":`...)
				to = append(p.appendFact(to, f, s), ',')
			}
		}
	}
	if p.passes {
		to = append(appendPasses(to, s), ',')
	}
	to[len(to)-1] = '}'
	return to
}

// SeesPasses reports whether the program reads the latest pass of each worker and the traffic.
func (p *process) SeesPasses() bool { return p.passes }

// appendPasses appends the latest pass of each worker that has run one, and the traffic.
func appendPasses(to []byte, s *Signals) []byte {
	type pass struct {
		Worker               int     `json:"worker"`
		Seconds              float64 `json:"seconds"`
		Prefills             int     `json:"prefill_requests"`
		PrefillTokens        int     `json:"prefill_tokens"`
		PrefillCached        int     `json:"prefill_cached_tokens"`
		Decodes              int     `json:"decode_requests"`
		DecodeTokens         int     `json:"decode_kv_tokens"`
		QueuedPrefills       int     `json:"queued_prefill_requests"`
		QueuedPrefillTokens  int     `json:"queued_prefill_tokens"`
		QueuedDecodes        int     `json:"queued_decode_requests"`
		QueuedDecodeKVTokens int     `json:"queued_decode_kv_tokens"`
	}
	all := []pass{}
	for i := range s.Each {
		if p := s.Each[i].Pass; p != nil {
			all = append(all, pass{
				p.Worker, p.Seconds, p.Prefill.Requests, p.Prefill.Sum, p.PrefillCached, p.Decode.Requests, p.Decode.Sum,
				p.QueuedPrefill.Requests, p.QueuedPrefill.Sum, p.QueuedDecode.Requests, p.QueuedDecode.Sum,
			})
		}
	}
	passes, _ := json.Marshal(all) // cannot fail: all numbers are finite
	traffic, _ := json.Marshal(&s.Traffic)
	to = append(append(to, `"passes":`...), passes...)
	return append(append(to, `,"traffic":`...), traffic...)
}

// appendFact appends the value of a fact.
func (p *process) appendFact(to []byte, f *fact, s *Signals) []byte {
	var value any
	switch {
	case s.At == 0 && !f.known: // null
	case f.all != nil:
		value = f.all(p.c, s)
	default:
		column := make([]float64, len(s.Each))
		for k := range s.Each {
			column[k] = f.each(&s.Each[k])
		}
		value = column
	}
	text, _ := json.Marshal(value) // cannot fail: all numbers are finite
	return append(to, text...)
}

// mostReason is the maximum length of a program's reason, in characters.
const mostReason = 200

// readWanted parses an answer: a number of workers, or an object with a number and a reason. expected is the required
// form, "" if the answer is valid.
func readWanted(answer []byte) (n int, why, expected string) {
	like := fmt.Sprintf(`a number of workers, 0 to %d, or an object such as {"workers": 4, "why": "..."}`, MostWorkers)
	r := struct {
		Workers *int   `json:"workers"`
		Why     string `json:"why"`
	}{}
	to := any(&r)
	if len(answer) == 0 || answer[0] != '{' {
		to = &r.Workers
	}
	switch err := decodeAnswer(answer, to); {
	case err != nil || r.Workers == nil || *r.Workers < 0 || *r.Workers > MostWorkers:
		return 0, "", like
	case utf8.RuneCountInString(r.Why) > mostReason || strings.ContainsFunc(r.Why, func(c rune) bool { return !unicode.IsPrint(c) }):
		return 0, "", fmt.Sprintf("a why of at most %d characters that can be printed", mostReason)
	}
	return *r.Workers, r.Why, ""
}

// check returns an error for a program that cannot be started.
func (p *Program) check() error {
	switch {
	case p == nil || strings.TrimSpace(p.Command) == "":
		return errors.New("no program to ask, expected command, as command: python3 scaler.py")
	case p.Timeout != 0 && p.Timeout < time.Millisecond:
		return fmt.Errorf("a timeout of %v, must be at least 1ms", p.Timeout)
	}
	return nil
}
