package eventplane

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/kvevents"
)

// queryName returns the endpoint at which subscribers query missed events of the rank.
func (p *Publisher) queryName() drt.Name {
	return drt.Name{Namespace: p.name.Namespace, Component: p.name.Component, Endpoint: fmt.Sprint("worker_kv_indexer_query_dp", p.rank)}
}

// serveQueries starts to answer queries.
func (p *Publisher) serveQueries(ctx context.Context) error {
	q := p.queryName()
	endpoint, err := p.runtime.Endpoint(q.Namespace, q.Component, q.Endpoint)
	if err != nil {
		return err
	}
	if p.query, err = endpoint.Serve(p.answerQuery, drt.ServeOptions{Device: "cpu", Bare: true}); err != nil {
		return err
	}
	return p.query.Register(ctx)
}

// question is a query: for events from an id on, or for all blocks.
type question struct {
	Worker uint64  `json:"worker_id"`
	Rank   *int    `json:"dp_rank"`
	First  *uint64 `json:"start_event_id"`
	Kind   string  `json:"kind"` // "recovery"; not sent by the older release
}

// answer is an answer to a query. Exactly one field of an answer is set.
type answer struct {
	Tree   *listing `json:"TreeDump,omitempty"` // all cached blocks
	Events *listing `json:"Events,omitempty"`   // events from the requested id on
	TooNew *tooNew  `json:"TooNew,omitempty"`
	Error  string   `json:"Error,omitempty"`
}

type listing struct {
	Events []eventRecord `json:"events"`
	Last   uint64        `json:"last_event_id"`
	Reset  string        `json:"reset_scope,omitempty"` // what the subscriber must drop first
}

// tooNew means that the requested events do not exist yet.
type tooNew struct {
	Start  uint64 `json:"requested_start"`
	End    uint64 `json:"requested_end"`
	Newest uint64 `json:"newest_available"`
}

// eventRecord is an event as JSON.
type eventRecord struct {
	Worker    uint64     `json:"worker_id"`
	Tier      string     `json:"storage_tier"`
	Residency string     `json:"residency_domain,omitempty"`
	Event     innerEvent `json:"event"`
}

type innerEvent struct {
	ID   uint64   `json:"event_id"`
	Data dataJSON `json:"data"`
	Rank int      `json:"dp_rank"`
}

type dataJSON struct {
	Stored  *storedJSON  `json:"stored,omitempty"`
	Removed *removedJSON `json:"removed,omitempty"`
}

type storedJSON struct {
	Parent   *uint64     `json:"parent_hash"`
	Position *uint64     `json:"start_position"`
	Blocks   []blockJSON `json:"blocks"`
}

type blockJSON struct {
	Block  uint64    `json:"block_hash"`
	Tokens uint64    `json:"tokens_hash"`
	Extra  *struct{} `json:"mm_extra_info"`
}

type removedJSON struct {
	Blocks []uint64 `json:"block_hashes"`
}

// answerQuery answers a query with one item.
func (p *Publisher) answerQuery(_ context.Context, _ cancel.Context, rq *drt.Request) (iter.Seq2[drt.Item, error], error) {
	var q question
	if err := json.Unmarshal(rq.Payload, &q); err != nil {
		return nil, fmt.Errorf("a query for KV events: %w", err)
	}
	text, err := json.Marshal(p.answerOf(&q))
	if err != nil {
		return nil, err
	}
	return func(yield func(drt.Item, error) bool) {
		yield(drt.Item{Data: text, Last: true}, nil)
	}, nil
}

// answerOf returns the answer to a question.
func (p *Publisher) answerOf(q *question) answer {
	newer := q.Kind != ""
	switch {
	case q.Worker != p.worker:
		return answer{Error: fmt.Sprintf("worker_id is %d, must be %d", q.Worker, p.worker)}
	case q.Rank != nil && *q.Rank != p.rank:
		return answer{Error: fmt.Sprintf("dp_rank is %d, must be %d", *q.Rank, p.rank)}
	}
	p.state.Lock()
	defer p.state.Unlock()
	if q.First != nil && *q.First > p.last {
		return answer{TooNew: &tooNew{*q.First, p.last, p.last}}
	}
	if q.First == nil || len(p.kept) == 0 || *q.First < p.kept[0].ID {
		l := &listing{Events: []eventRecord{}, Last: p.last}
		if newer {
			l.Reset = "all"
		}
		for i, run := range p.holding.Runs(maxBlocks) {
			l.Events = append(l.Events, p.recordOf(&change{ID: uint64(i), Stored: run}, newer))
		}
		return answer{Tree: l}
	}
	l := &listing{Last: p.last}
	for i := range p.kept[*q.First-p.kept[0].ID:] {
		l.Events = append(l.Events, p.recordOf(&p.kept[int(*q.First-p.kept[0].ID)+i], newer))
	}
	return answer{Events: l}
}

// keepChanges keeps changes for subscribers that missed events. p.state is held.
func (p *Publisher) keepChanges(changes []change) {
	p.kept = append(p.kept, changes...)
	if over := len(p.kept) - maxKept; over > 0 {
		clear(p.kept[:over]) // releases their memory
		p.kept = p.kept[over:]
	}
}

func (p *Publisher) recordOf(c *change, newer bool) eventRecord {
	r := eventRecord{Worker: p.worker, Tier: device, Event: innerEvent{ID: c.ID, Rank: p.rank}}
	if newer {
		r.Residency = "worker"
	}
	if len(c.Removed) > 0 {
		r.Event.Data.Removed = &removedJSON{c.Removed}
		return r
	}
	r.Event.Data.Stored = storedOf(&c.Stored)
	return r
}

func storedOf(run *kvevents.Run) *storedJSON {
	s := &storedJSON{Blocks: make([]blockJSON, len(run.Blocks))}
	if run.HasParent {
		s.Parent = &run.Parent
	}
	for i, b := range run.Blocks {
		s.Blocks[i] = blockJSON{Block: b.Seq, Tokens: b.Tokens}
	}
	return s
}

// encodeNumber returns a number as a ZeroMQ frame.
func encodeNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
