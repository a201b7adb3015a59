package formats

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/replay-llm/replay/loadgen"
)

const dynamoSchema = `"dynamo.request.trace.v1"`

func isDynamo(o *object) bool {
	return string(o.find("schema")) == dynamoSchema || string(o.openInner("event").find("schema")) == dynamoSchema
}

// dynamoRows reads the request traces that a Dynamo deployment writes.
type dynamoRows struct {
	gathered
	seen    map[string]int    // line by request id
	agents  int               // requests with an agent's context
	parents map[string]string // by session: the one that started it
	block   int
}

func openDynamo(s *Stream) (rows, error) {
	d := &dynamoRows{gathered: gathered{s: s}, seen: make(map[string]int), parents: make(map[string]string)}
	if err := d.eachLine(d.readLine); err != nil {
		return nil, err
	}
	if n := len(d.all); d.agents > 0 && d.agents < n {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: fmt.Sprintf("agent_context on %d of %d requests, want all or none", d.agents, n)}
	}
	if b := s.o.TraceBlock; b != 0 && b != d.block && d.block != 0 {
		return nil, &loadgen.SyntaxError{Name: s.Name, Msg: fmt.Sprintf("trace block size is %d, want the %d of the file", b, d.block)}
	}
	s.Block, s.Chained = d.block, d.agents > 0 && s.o.Sessions != "flat"
	d.sortRequests()
	return d, d.linkAgents()
}

// linkAgents makes a graph of requests whose agents start others and wait for them, or chains.
func (d *dynamoRows) linkAgents() error {
	if len(d.parents) > 0 {
		spawns, joins := d.agentsOfAgents(false)
		if d.s.o.graphOf(spawns + joins) {
			d.agentsOfAgents(true)
			return nil
		}
		if err := d.s.refuseDAG(spawns, joins); err != nil {
			return err
		}
	}
	for i := range d.all {
		d.all[i].Name = "" // all are given as turns
	}
	return nil
}

func (d *dynamoRows) readLine(event *fields) error {
	if event.has("event") {
		event = event.openSub("event")
	}
	if string(event.find("schema")) != dynamoSchema {
		event.mismatch("schema", event.find("schema"), dynamoSchema)
	}
	kind := string(event.readText("event_type"))
	switch kind {
	case "request_end":
		r := d.readRequest(event)
		if event.err == nil {
			d.all = append(d.all, r)
		}
	case "tool_end", "tool_error", "request_payload", "tool_start":
	default:
		event.complain("event_type is %q, want request_end, request_payload, tool_start, tool_end or tool_error", kind)
	}
	return event.err
}

func (d *dynamoRows) readRequest(event *fields) Record {
	r := Record{Line: event.line}
	q := event.openSub("request")
	p := q.openSub("replay")
	r.Name = string(q.readText("request_id"))
	if line, twice := d.seen[r.Name]; twice {
		q.complain("request_id %s was on line %d, want each once", r.Name, line)
	}
	d.seen[r.Name] = r.Line
	r.arrives(q.needStamp("request_received_ms", 6))
	r.Output = q.needCount("output_tokens")
	if total, ok := q.readStamp("total_time_ms", 6); ok {
		r.ended = r.when.plus(total)
	} else {
		r.ended = event.needStamp("event_time_unix_ms", 6)
	}
	r.Input = p.needCount("input_length")
	block := p.needCount("trace_block_size")
	r.IDs = p.needIDs("input_sequence_hashes", "one per block", nil)
	d.checkBlock(p, block, &r)
	d.readContext(event, q, &r)
	return r
}

func (d *dynamoRows) checkBlock(p *fields, block int, r *Record) {
	switch {
	case p.err != nil:
	case block == 0:
		p.complain("%strace_block_size is 0, want > 0", p.place)
	case d.block != 0 && block != d.block:
		p.complain("%strace_block_size is %d, was %d before; want one size", p.place, block, d.block)
	case len(r.IDs) != (r.Input+block-1)/block:
		p.complain("%d hashes for %d tokens of %d, want %d", len(r.IDs), r.Input, block, (r.Input+block-1)/block)
	default:
		d.block = block
	}
}

// readContext reads which agent a request is of.
func (d *dynamoRows) readContext(event, q *fields, r *Record) {
	a := event.openSub("agent_context")
	if len(a.members) == 0 {
		a = q.openSub("agent_context")
	}
	if len(a.members) == 0 {
		return
	}
	d.agents++
	id := a.readText("session_id")
	if id == nil {
		a.missing("session_id", "a string")
	}
	if parent := a.readText("parent_session_id"); parent != nil && id != nil {
		d.parents[string(id)] = string(parent)
	}
	r.Session, r.Group = bytes.Clone(id), bytes.Clone(id)
}

// sortRequests sorts the requests by start, end and id, and links those of a session.
func (d *dynamoRows) sortRequests() {
	slices.SortStableFunc(d.all, func(a, b Record) int {
		return cmp.Or(a.when.compare(b.when), a.ended.compare(b.ended), strings.Compare(a.Name, b.Name))
	})
	ends := make(lastEnds)
	for i := range d.all {
		if r := &d.all[i]; r.Session != nil {
			ends.chain(r, r.Session, r.ended)
		}
	}
}
