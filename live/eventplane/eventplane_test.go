package eventplane

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/blockhash"
)

// recordedCalls returns the calls recorded in testdata/recorded.txt as events of an engine.
func recordedCalls() []scheduler.KVEvent {
	tokens := make([]uint32, 32)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	first, second := blockhash.Tokens(tokens[:16]), blockhash.Tokens(tokens[16:])
	const minus5 = ^uint64(4)
	return []scheduler.KVEvent{
		{Stored: []scheduler.KVBlock{{Seq: 0x1111111111, Tokens: first}, {Seq: minus5, Tokens: second}}},
		{Parent: minus5, HasParent: true, Stored: []scheduler.KVBlock{{Seq: 77, Tokens: first}}},
		{Removed: []uint64{77}},
	}
}

// recorded is a recorded message, split into its parts.
type recorded struct {
	release, subject    string
	message, payload    []byte
	publisher, sequence uint64
	at                  time.Time
	worker              uint64
}

func readRecorded(t *testing.T) (all []recorded) {
	t.Helper()
	f, err := os.Open("testdata/recorded.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		words := strings.Fields(in.Text())
		if len(words) != 3 || words[0] == "#" {
			continue
		}
		r := recorded{release: words[0], subject: words[1]}
		if r.message, err = hex.DecodeString(words[2]); err != nil {
			t.Fatal(err)
		}
		v, _, err := msgp.ReadMapStrIntfBytes(r.message, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.publisher, r.sequence = number(v["publisher_id"]), number(v["sequence"])
		r.at, r.payload = time.UnixMilli(int64(number(v["published_at"]))), v["payload"].([]byte)
		inner := bytes.TrimPrefix(r.payload, []byte{0x91})
		e, _, err := msgp.ReadMapStrIntfBytes(inner, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.worker = number(e["worker_id"])
		all = append(all, r)
	}
	return all
}

func number(v any) uint64 {
	switch n := v.(type) {
	case uint64:
		return n
	case int64:
		return uint64(n)
	}
	panic(fmt.Sprintf("%T", v))
}

// Messages are equal byte for byte to those of the package's publisher for the same events.
func TestMessagesAreThePackages(t *testing.T) {
	all := readRecorded(t)
	if len(all) != 6 {
		t.Fatalf("%d messages, want 6", len(all))
	}
	name := drt.Name{Namespace: "theirs", Component: "backend", Endpoint: "generate"}
	for i, r := range all {
		l := layout{newer: r.release == "1.6.1"}
		if got := l.subjectOf(name); got != r.subject {
			t.Errorf("subject %s, want %s", got, r.subject)
		}
		c := asChange(recordedCalls()[i%3], uint64(i%3)+1)
		payload := l.appendPayload(nil, r.worker, 0, &c)
		if got := appendEnvelope(nil, r.publisher, r.sequence, r.at, payload); !bytes.Equal(got, r.message) {
			t.Errorf("%s, event %d:\n%x, want\n%x", r.release, c.ID, got, r.message)
		}
	}
}

func asChange(e scheduler.KVEvent, id uint64) change {
	c := change{ID: id, Removed: e.Removed}
	c.Stored.Parent, c.Stored.HasParent, c.Stored.Blocks = e.Parent, e.HasParent, e.Stored
	return c
}

// plane is a publisher of a worker on separate servers.
type plane struct {
	*Publisher
	hub *drttest.Servers
	rt  *drt.Runtime
}

func newPlane(t *testing.T, rank int) *plane {
	t.Helper()
	hub := drttest.Start(t)
	rt, err := drt.Connect(drttest.Within(t), hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(drttest.Within(t)); err != nil {
			t.Error(err)
		}
	})
	warn := func(text string) { t.Errorf("warning: %s", text) }
	p, err := openPlane(Options{NATS: true, ZMQ: true, Warn: warn}, rt, drt.Name{Namespace: "theirs", Component: "backend", Endpoint: "generate"}, rank)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &plane{p, hub, rt}
}

// ask returns the answer to a question as JSON, with WORKER for the worker's id.
func (p *plane) ask(t *testing.T, question1 string) string {
	t.Helper()
	var q question
	if err := json.Unmarshal([]byte(strings.ReplaceAll(question1, "WORKER", fmt.Sprint(p.worker))), &q); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p.answerOf(&q))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), fmt.Sprint(p.worker), "WORKER")
}

// await waits until n events are published.
func (p *plane) await(t *testing.T, n uint64) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%d events", n), func() bool {
		p.state.Lock()
		defer p.state.Unlock()
		return p.last >= n
	})
}

// Queries get the same answers as from the package's worker after the same events. There is one difference in the
// answers: the older release also merges the blocks of a chain into one event.
func TestAnswersAreThePackages(t *testing.T) {
	p := newPlane(t, 0)
	for _, e := range recordedCalls() {
		p.Enqueue(e)
	}
	p.await(t, 3)
	const both = `{"parent_hash":null,"start_position":null,"blocks":[{"block_hash":73300775185,"tokens_hash":15310707395893867146,"mm_extra_info":null},{"block_hash":18446744073709551611,"tokens_hash":15292316782987903195,"mm_extra_info":null}]}`
	const child = `{"event_id":2,"data":{"stored":{"parent_hash":18446744073709551611,"start_position":null,"blocks":[{"block_hash":77,"tokens_hash":15310707395893867146,"mm_extra_info":null}]}},"dp_rank":0}`
	const gone = `{"event_id":3,"data":{"removed":{"block_hashes":[77]}},"dp_rank":0}`
	const newer, older = `{"worker_id":WORKER,"storage_tier":"device","residency_domain":"worker","event":`, `{"worker_id":WORKER,"storage_tier":"device","event":`
	for _, c := range []struct{ ask, want string }{
		{`{"worker_id":WORKER,"start_event_id":null,"end_event_id":null}`, `{"TreeDump":{"events":[` + older + `{"event_id":0,"data":{"stored":` + both + `},"dp_rank":0}}],"last_event_id":3}}`},
		{`{"worker_id":WORKER,"dp_rank":0,"start_event_id":null,"end_event_id":null,"supports_tree_dump_failed":true,"kind":"recovery"}`, `{"TreeDump":{"events":[` + newer + `{"event_id":0,"data":{"stored":` + both + `},"dp_rank":0}}],"last_event_id":3,"reset_scope":"all"}}`},
		{`{"worker_id":WORKER,"start_event_id":0}`, `{"TreeDump":{"events":[` + older + `{"event_id":0,"data":{"stored":` + both + `},"dp_rank":0}}],"last_event_id":3}}`},
		{`{"worker_id":WORKER,"start_event_id":2,"end_event_id":null}`, `{"Events":{"events":[` + older + child + `},` + older + gone + `}],"last_event_id":3}}`},
		{`{"worker_id":WORKER,"start_event_id":3,"end_event_id":3,"kind":"recovery"}`, `{"Events":{"events":[` + newer + gone + `}],"last_event_id":3}}`},
		{`{"worker_id":WORKER,"start_event_id":4}`, `{"TooNew":{"requested_start":4,"requested_end":3,"newest_available":3}}`},
		{`{"worker_id":7}`, `{"Error":"worker_id is 7, must be WORKER"}`},
		{`{"worker_id":WORKER,"dp_rank":4}`, `{"Error":"dp_rank is 4, must be 0"}`},
	} {
		if got := p.ask(t, c.ask); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.ask, got, c.want)
		}
	}
}

// Discovery has the keys of both releases while the publisher lives, and no key after its end.
func TestKeysAreThePackages(t *testing.T) {
	p := newPlane(t, 0)
	w, n := fmt.Sprintf("%x", p.worker), fmt.Sprintf("%x", p.lanes[1].publisher)
	want := []string{
		"v1/event_channels/namespace/theirs/component/backend/endpoint/generate/topic/kv-events/" + n,
		"v1/event_channels/theirs/backend/kv-events/" + w,
		"v1/event_sources/namespace/theirs/component/backend/endpoint/generate/topic/kv-events/" + n,
		"v1/instances/theirs/backend/worker_kv_indexer_query_dp0/" + w,
	}
	var got []string
	for _, key := range p.hub.Keys(t) {
		if strings.HasPrefix(key, "v1/") {
			got = append(got, key)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("keys\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, l := range p.lanes {
		b, err := json.Marshal(p.channelOf(l))
		socket := fmt.Sprintf(`"transport":{"kind":"Zmq","config":{"endpoint":%q}}}`, l.pub.Endpoint())
		wantChannel := []string{
			fmt.Sprintf(`{"type":"EventChannel","namespace":"theirs","component":"backend","topic":"kv-events","instance_id":%d,`, p.worker),
			fmt.Sprintf(`{"type":"EventChannel","scope":{"kind":"endpoint","endpoint":{"namespace":"theirs","component":"backend","name":"generate"}},"topic":"kv-events","instance_id":%d,`, l.publisher),
		}[i] + socket
		if err != nil || string(b) != wantChannel {
			t.Errorf("%s, %v, want %s", b, err, wantChannel)
		}
	}
	b, err := json.Marshal(p.sourceOf(p.lanes[1]))
	wantSource := fmt.Sprintf(`{"type":"EventSource","scope":{"kind":"endpoint","endpoint":{"namespace":"theirs","component":"backend","name":"generate"}},"topic":"kv-events","publisher_id":%d,"metadata":{"kv_state_endpoint":{"namespace":"theirs","component":"backend","name":"generate"},"worker":{"worker_id":%d,"dp_rank":0},"publisher_id":%[1]d,"recovery_target":{"component":"backend","endpoint":"worker_kv_indexer_query_dp0","namespace":"theirs","instance_id":%[2]d,"transport":{"nats_tcp":"theirs_backend.worker_kv_indexer_query_dp0-%[2]x"}}}}`, p.lanes[1].publisher, p.worker)
	if err != nil || string(b) != wantSource {
		t.Errorf("%s, %v, want\n%s", b, err, wantSource)
	}
	p.Close()
	for _, key := range p.hub.Keys(t) {
		t.Errorf("%s is left", key)
	}
}

// Messages over ZeroMQ have the content of messages over NATS, in frames with topic, publisher and number.
func TestMessagesOverZeroMQ(t *testing.T) {
	p := newPlane(t, 0)
	for i, l := range p.lanes {
		sub, err := zmtp.NewSub(l.pub.Endpoint(), topic, zmtp.SubOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sub.Close)
		var got []zmtp.Delivery
		for len(got) == 0 || !got[len(got)-1].Connected {
			if got, err = sub.Receive(drttest.Within(t), got); err != nil {
				t.Fatal(err)
			}
		}
		before := uint64(i)
		p.Enqueue(scheduler.KVEvent{Stored: []scheduler.KVBlock{{Seq: 100 + before, Tokens: 5}}})
		var m zmtp.Message
		for len(m) < 4 || binary.BigEndian.Uint64(m[2]) < before { // the event of the previous lane may arrive late
			if got, err = sub.Receive(drttest.Within(t), got[:0]); err != nil || len(got[len(got)-1].Message) != 4 {
				t.Fatalf("%v, %v, want messages of four frames", got, err)
			}
			m = got[len(got)-1].Message
		}
		head := fmt.Sprintf("%s %x %x %x", m[0], m[1], m[2], m[3][:5])
		if want := fmt.Sprintf("kv-events %016x %016x 01%08x", l.publisher, before, len(m[3])-5); head != want {
			t.Errorf("%s, want %s", head, want)
		}
		v, rest, err := msgp.ReadMapStrIntfBytes(m[3][5:], nil)
		if err != nil || len(rest) > 0 || number(v["publisher_id"]) != l.publisher || number(v["sequence"]) != before {
			t.Errorf("%v, %d bytes more, %v", v, len(rest), err)
		}
		c := change{ID: before + 1}
		c.Stored.Blocks = []scheduler.KVBlock{{Seq: 100 + before, Tokens: 5}}
		if want := l.appendPayload(nil, p.worker, 0, &c); !bytes.Equal(v["payload"].([]byte), want) {
			t.Errorf("%x, want %x", v["payload"], want)
		}
	}
}

// A block with several copies is removed with its last copy. Long events are split, and each part is the parent of
// the next part. A query for events that are no longer kept is answered with all blocks.
func TestLongEvents(t *testing.T) {
	p := newPlane(t, 0)
	long := make([]scheduler.KVBlock, 2*maxBlocks+1)
	for i := range long {
		long[i] = scheduler.KVBlock{Seq: uint64(i) + 1, Tokens: uint64(i) + 1}
	}
	p.Enqueue(scheduler.KVEvent{Stored: long})
	p.await(t, 3)
	p.Enqueue(scheduler.KVEvent{Parent: 1, HasParent: true, Stored: long[1:2]})
	p.Enqueue(scheduler.KVEvent{Removed: []uint64{2, uint64(len(long))}})
	p.await(t, 5)
	if got := p.kept[4].Removed; len(got) != 1 || got[0] != uint64(len(long)) {
		t.Errorf("gone are %v, want the one that was there once", got)
	}
	for i, want := range []struct{ parent, blocks int }{{0, maxBlocks}, {maxBlocks, maxBlocks}, {2 * maxBlocks, 1}} {
		if s := p.kept[i].Stored; int(s.Parent) != want.parent || s.HasParent != (i > 0) || len(s.Blocks) != want.blocks {
			t.Errorf("piece %d: %d blocks behind %d (%v), want %v", i, len(s.Blocks), s.Parent, s.HasParent, want)
		}
	}
	for i := range uint64(maxKept) {
		p.Enqueue(scheduler.KVEvent{Stored: []scheduler.KVBlock{{Seq: 1 << 40, Tokens: i}}})
	}
	p.await(t, 5+maxKept)
	a := p.answerOf(&question{Worker: p.worker, First: new(uint64)})
	if a.Tree == nil || a.Tree.Last != 5+maxKept || len(p.kept) != maxKept {
		t.Fatalf("%+v with %d kept, want all there is", a, len(p.kept))
	}
	n := 0
	for _, e := range a.Tree.Events {
		n += len(e.Event.Data.Stored.Blocks)
	}
	if n != len(long) {
		t.Errorf("%d blocks, want %d", n, len(long))
	}
}

// Each data-parallel rank has a separate publisher, a separate endpoint for queries, and its number in events.
func TestRankOnThePlane(t *testing.T) {
	p := newPlane(t, 2)
	for _, e := range recordedCalls() {
		p.Enqueue(e)
	}
	p.await(t, 3)
	w, n := fmt.Sprintf("%x", p.worker), fmt.Sprintf("%x", p.lanes[0].publisher)
	keys := strings.Join(p.hub.Keys(t), "\n")
	for _, want := range []string{"v1/event_channels/theirs/backend/kv-events/" + n, "v1/instances/theirs/backend/worker_kv_indexer_query_dp2/" + w} {
		if n == w || !strings.Contains(keys, want) {
			t.Errorf("keys %s, want %s", keys, want)
		}
	}
	if got := p.ask(t, `{"worker_id":WORKER,"dp_rank":2,"start_event_id":3}`); !strings.Contains(got, `"removed":{"block_hashes":[77]}},"dp_rank":2}`) {
		t.Errorf("answer %s, want rank 2", got)
	}
	if got := p.ask(t, `{"worker_id":WORKER,"dp_rank":0}`); got != `{"Error":"dp_rank is 0, must be 2"}` {
		t.Errorf("answer %s, want an error", got)
	}
	b, err := json.Marshal(p.sourceOf(p.lanes[1]))
	if want := fmt.Sprintf(`"worker":{"worker_id":%d,"dp_rank":2}`, p.worker); err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
}
