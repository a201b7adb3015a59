package policy

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
)

// holdingProcess is a program that may hold and shed requests.
type holdingProcess struct {
	process *process
	decided *sim.Request // an accepted request that is not placed yet
	worker  sim.WorkerID
}

func (p *holdingProcess) Needs() router.Needs {
	n := p.process.needs
	n.Running = true // held requests are decided on again when a request ends
	return n
}

// Err returns the error after which the program chooses no worker.
func (p *holdingProcess) Err() error { return p.process.err }

// LooksAt returns the names of the facts that the program reads.
func (p *holdingProcess) LooksAt() []string { return p.process.LooksAt() }

// Decide returns the program's decision on q. An accepting answer is the id of the worker.
func (p *holdingProcess) Decide(q *sim.Request, c *router.Candidates) router.Decision {
	x := p.process
	x.mayHold = true
	x.line = append(x.appendDecision(x.line[:0], q, c), '\n')
	x.mayHold = false
	answer := x.ask()
	switch {
	case x.err != nil: // Choose reports the error
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

// Choose returns the worker of Decide's answer. If q was to be held but no request runs, q is admitted, and the
// program must return a worker.
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

// Add adds a request to the next batch.
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

// Decide sends the batch to the program.
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

// Clear removes the requests of a batch that have not been placed.
func (p *batchProcess) Clear() { p.batch.requests, p.batch.next = p.batch.requests[:0], 0 }

// Choose returns the worker of q in the batch. If q is not in the batch, Choose sends q alone to the program.
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

// parseWorkers appends the ids of a JSON array. parseWorkers returns nil for any other text.
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
