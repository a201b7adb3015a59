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

// Program is a program of the user's that decides, asked line by line (docs/autoscaling.md, A program).
type Program struct {
	Command string        `yaml:"command" of:"process"`
	Timeout time.Duration `json:"-" yaml:"timeout" is:"timeout" of:"process"` // for an answer, in real time
}

// Asker is a program that is running.
type Asker interface {
	// Ask sends a line, which ends in a line feed, and returns the answer, valid until the next call.
	Ask(line []byte) ([]byte, error)
	// Refuse returns the error of an answer that makes no sense.
	Refuse(answer []byte, want string) error
}

// process scales by what a program that runs answers.
type process struct {
	c     *Config
	asker Asker
	reason
	facts []fact
	line  []byte
	// passes is whether the program reads the latest pass of each worker, and the traffic.
	passes bool
	err    error // why it cannot decide any more
}

// processVersion is that of the protocol.
const processVersion = 1

// scalerGreeting is the first line that a program gets.
type scalerGreeting struct {
	Protocol string   `json:"protocol"`
	Version  int      `json:"version"`
	Role     string   `json:"role"`
	Least    int      `json:"least"`
	Most     int      `json:"most"`
	Sync     sim.Time `json:"sync"`
	Seed     uint64   `json:"seed"`
	Facts    []string `json:"facts"`
	Engine   any      `json:"engine"` // what is known of a worker
}

// NewProcess greets a program that scales workers, and returns the scaler that it is.
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

// decodeAnswer reads an object with no other keys than those of to, and nothing behind it.
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

// Want asks the program. What it answers is kept within the bounds.
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

// Err returns why the program cannot decide any more.
func (p *process) Err() error { return p.err }

// ask sends a tick, and returns the number of workers that the program answers.
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

// appendTick appends the facts of a tick as an object: those of all workers, then those of each. What is scraped is
// null until something has been read.
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

// SeesPasses reports whether the program reads the latest pass of each worker, and the traffic.
func (p *process) SeesPasses() bool { return p.passes }

// appendPasses appends the latest pass of each worker that has had one, and the traffic.
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
	passes, _ := json.Marshal(all) // numbers, which are finite
	traffic, _ := json.Marshal(&s.Traffic)
	to = append(append(to, `"passes":`...), passes...)
	return append(append(to, `,"traffic":`...), traffic...)
}

// appendFact appends what a fact is.
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
	text, _ := json.Marshal(value) // numbers, which are finite
	return append(to, text...)
}

// mostReason bounds the reason of a program, in characters.
const mostReason = 200

// readWanted reads an answer: a number of workers, or an object with a number and a reason. expected is the expected
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

// check refuses a program that cannot be started.
func (p *Program) check() error {
	switch {
	case p == nil || strings.TrimSpace(p.Command) == "":
		return errors.New("no program to ask, expected command, as command: python3 scaler.py")
	case p.Timeout != 0 && p.Timeout < time.Millisecond:
		return fmt.Errorf("a timeout of %v, must be at least 1ms", p.Timeout)
	}
	return nil
}
