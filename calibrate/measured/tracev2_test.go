package measured

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
)

func TestTraceV2(t *testing.T) {
	dir := measuredtest.WriteTraceRun(t, map[string]string{"vllm.log": measuredtest.ServerLog, "trace_header.yaml": "trace_version: 2\nwarm_up_requests: 10\n"},
		"90,critical,,0,100,0,0,9000000,1700000009000000,,,error\n")
	m, err := ReadRun(dir, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &m.Settings
	if len(m.Requests) != 50 || m.Lead != 10 || m.Failed != 1 {
		t.Errorf("%d requests, %d before the first, %d failed, want 50, 10 and 1", len(m.Requests), m.Lead, m.Failed)
	}
	if s.Blocks != 1000 || s.MaxSeqs != 64 || s.Version != "0.20.2" || !s.Async || len(s.Open) > 0 || s.Graphs != nil {
		t.Errorf("settings are %+v", s)
	}
	if r := &m.Requests[10]; r.ID != "10" || r.Class != "critical" || !(r.Arrival > 0.99 && r.Arrival < 1.01) || !(r.First-r.Arrival > 0.0499 && r.First-r.Arrival < 0.0501) {
		t.Errorf("the first that was measured is %+v, want number 10 at 1 s", r)
	}
	if m.Requests[0].Arrival != 0 || m.Requests[0].lead == false {
		t.Errorf("the first of all is %+v, want one before the table, at 0", m.Requests[0])
	}
	p := m.Prompts
	if p == nil || p.Check(m.Requests) != nil {
		t.Fatalf("prompts are %+v", p)
	}
	if a, b := p.IDs[0], p.IDs[2]; a[3] != b[3] || a[4] == b[4] || p.IDs[1][0] == a[0] {
		t.Errorf("prompts of one group are %v and %v, want 64 tokens in common", a[:6], b[:6])
	}
	if m.Lead != 10 || len(m.Requests) != 50 {
		t.Errorf("%d of %d requests are those before the table, want 10 of 50", m.Lead, len(m.Requests))
	}
}

// TestPrefixAsServed checks that the client's count of the tokens of a prefix is corrected by the server's count.
func TestPrefixAsServed(t *testing.T) {
	table := &traceTable{requests: make([]Request, 2), shapes: []prefixShape{{"a", 64, -5}, {excess: 1}}}
	table.requests[0].Input, table.requests[1].Input = 100, 100
	table.requests, table.shapes = append(table.requests, table.requests[0]), append(table.shapes, table.shapes[0])
	p := table.prompts("")
	if p.IDs[0][2] != p.IDs[2][2] || p.IDs[0][3] == p.IDs[2][3] {
		t.Errorf("%v and %v, want 58 tokens in common: 3 blocks", p.IDs[0], p.IDs[2])
	}
}

// TestPrefixesOfGroups checks that each group of prefixes has a separate length, by the server's counts of its
// prompts.
func TestPrefixesOfGroups(t *testing.T) {
	table := &traceTable{}
	for _, s := range []prefixShape{{excess: 1}, {"a", 64, -5}, {"b", 64, 19}, {"a", 64, -3}, {"b", 64, 21}} {
		table.requests, table.shapes = append(table.requests, Request{Input: 200}), append(table.shapes, s)
	}
	p := table.prompts("")
	alike := func(i, k int) (blocks int) {
		for blocks < len(p.IDs[i]) && p.IDs[i][blocks] == p.IDs[k][blocks] {
			blocks++
		}
		return blocks
	}
	if a, b := alike(1, 3), alike(2, 4); a != 3 || b != 5 || alike(1, 2) != 0 {
		t.Errorf("%d and %d blocks in common, want 3 and 5: 59 and 83 tokens", a, b)
	}
}

func TestBadTraceV2(t *testing.T) {
	for _, c := range []struct{ row, want string }{
		{"91,,,0,100,20,100,0,1700000000000000,5,6,ok\n", ":42: sent, first and last chunk"},
		{"91,,,0,100,x,100,0,1700000000000000,5,6,ok\n", `:42: output_tokens is "x", must be a whole number`},
		{"91,,\n", ":42:"},
	} {
		dir := measuredtest.WriteTraceRun(t, map[string]string{"vllm.log": measuredtest.ServerLog}, c.row)
		if _, err := ReadRun(dir, 0, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.row, err, c.want)
		}
	}
	dir := measuredtest.WriteTraceRun(t, map[string]string{"trace_header.yaml": "warm_up_requests: many\n"})
	if _, err := ReadRequests(dir, 0); err == nil || !strings.Contains(err.Error(), `warm_up_requests is "many"`) {
		t.Errorf("%v, want what is wrong with the header", err)
	}
}

// TestNumberedRequests checks that a name of a request can be a number or a text.
func TestNumberedRequests(t *testing.T) {
	r, err := readRequest([]byte(`{"request_id": 17, "input_toks": 3, "output_toks": 2, "queued_ts": 1, "first_token_ts": 2, "last_token_ts": 3}`))
	if err != nil || r.ID != "17" {
		t.Errorf("request %q, %v, want 17", r.ID, err)
	}
}
