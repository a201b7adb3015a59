package policy

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// holdingProcess is a program that may hold requests back and turn them away.
type holdingProcess struct {
	process *process
	decided *sim.Request // that it has admitted, and that is to be placed
	worker  sim.WorkerID
}

func (p *holdingProcess) Needs() router.Needs {
	n := p.process.needs
	n.Running = true // it is asked anew when anything ends
	return n
}

// Err returns why the program cannot choose any more.
func (p *holdingProcess) Err() error { return p.process.err }

// LooksAt returns the names of what the program reads.
func (p *holdingProcess) LooksAt() []string { return p.process.LooksAt() }

// Decide asks the program for the decision on q. The answer also names the worker.
func (p *holdingProcess) Decide(q *sim.Request, c *router.Candidates) router.Decision {
	x := p.process
	x.mayHold = true
	x.line = append(x.appendDecision(x.line[:0], q, c), '\n')
	x.mayHold = false
	answer := x.ask()
	switch {
	case x.err != nil: // which Choose tells
	case string(answer) == `"hold"`:
		return router.Wait
	case string(answer) == `"shed"`:
		return router.Shed
	}
	p.decided = q
	if x.err != nil {
		return router.Accept
	}
	var ok bool
	if p.worker, ok = parseWorker(answer); !ok || !slices.Contains(c.Workers, p.worker) {
		x.refuse(answer, `"hold", "shed" or the id of `+describeWorkers(c.Workers))
	}
	return router.Accept
}

// Choose returns the worker that Decide received. Otherwise q is admitted although it would be held, since nothing runs: the
// program must name a worker.
func (p *holdingProcess) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	if p.process.err != nil {
		return noChoice()
	}
	if p.decided != q {
		return p.process.Choose(q, c)
	}
	p.decided = nil
	return p.process.choose(q, c, p.worker)
}

// batchProcess is a program that decides on the requests of an instant together.
type batchProcess struct{ *process }

// Add adds a request to the batch that is decided on together.
func (p *batchProcess) Add(q *sim.Request, c *router.Candidates) {
	b := &p.batch
	if len(b.requests) == 0 {
		p.line = append(p.line[:0], '[')
	} else {
		p.line = append(p.line, ',')
	}
	p.line = p.appendDecision(p.line, q, c)
	b.requests = append(b.requests, q)
}

// Decide asks the program about the requests that were added.
func (p *batchProcess) Decide() {
	p.line = append(p.line, ']', '\n')
	answer := p.ask()
	if p.err != nil {
		return
	}
	b := &p.batch
	if b.workers = parseWorkers(b.workers[:0], answer); len(b.workers) != len(b.requests) {
		p.refuse(answer, fmt.Sprintf("the ids of workers in brackets, one for each decision: %d", len(b.requests)))
		return
	}
	for _, w := range b.workers {
		if !slices.Contains(p.listed, w) {
			p.refuse(answer, "ids of "+describeWorkers(p.listed))
			return
		}
	}
}

// Clear forgets what was decided and has not been placed.
func (p *batchProcess) Clear() { p.batch.requests, p.batch.next = p.batch.requests[:0], 0 }

// Choose returns what was decided, or asks the program about q alone.
func (p *batchProcess) Choose(q *sim.Request, c *router.Candidates) router.Choice {
	b := &p.batch
	i := slices.Index(b.requests[b.next:], q)
	if i < 0 {
		p.Clear()
		p.Add(q, c)
		p.Decide()
		i = 0
	}
	if p.err != nil {
		return noChoice()
	}
	b.next += i + 1
	return p.choose(q, c, b.workers[b.next-1])
}

// parseWorkers appends the ids of an array; nothing where it is none.
func parseWorkers(to []sim.WorkerID, text []byte) []sim.WorkerID {
	if len(text) < 2 || text[0] != '[' || text[len(text)-1] != ']' {
		return nil
	}
	for part := range bytes.SplitSeq(text[1:len(text)-1], []byte{','}) {
		w, ok := parseWorker(bytes.TrimSpace(part))
		if !ok {
			return nil
		}
		to = append(to, w)
	}
	return to
}
