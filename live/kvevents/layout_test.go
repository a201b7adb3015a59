package kvevents

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/scheduler"
)

// recordedTopic is the topic of the recordings of vLLM's publishers.
const recordedTopic = "kv@pod@m"

// recorded returns recorded messages of vLLM's publisher of a release: batches, or the frames of answers.
func recorded(t *testing.T, release, kind string) (list []zmtp.Message) {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] != release || f[1] != kind {
			continue
		}
		var m zmtp.Message
		for _, frame := range f[2:] {
			if frame == "-" {
				frame = ""
			}
			m = append(m, unhex(t, frame))
		}
		list = append(list, m)
	}
	if len(list) == 0 {
		t.Fatalf("nothing recorded of %s", release)
	}
	return list
}

// The encoder produces the same bytes as vLLM for each recorded batch.
func TestRecordedBatches(t *testing.T) {
	for release, layout := range map[string]Layout{"0.19.1": VLLM019, "0.33.0": VLLM033, "0.32.0": VLLM032} {
		for i, m := range recorded(t, release, "batch") {
			b, err := Decode(m[0])
			if err != nil {
				t.Fatalf("%s, batch %d: %v", release, i, err)
			}
			got := vllmEncoder{layout: layout}.appendBatch(nil, &b)
			if release == "0.32.0" { // the recorded removed block has a hash of 32 bytes, which this encoder does not produce
				head := bytes.LastIndex(m[0], []byte("block_hashes"))
				if !bytes.Equal(got[:head], m[0][:head]) || b.Events[1].Blocks[0] != 0x0101010101010101 {
					t.Errorf("%s, batch %d: %x, want %x", release, i, got, m[0])
				}
			} else if !bytes.Equal(got, m[0]) {
				t.Errorf("%s, batch %d:\n%x, want\n%x", release, i, got, m[0])
			}
		}
	}
}

// A tee that receives vLLM's events publishes and answers the same bytes as vLLM, except timestamps. All messages of
// two recorded releases are compared.
func TestRecordedPublisher(t *testing.T) {
	for release, layout := range map[string]Layout{"0.19.1": VLLM019, "0.33.0": VLLM033} {
		batches := recorded(t, release, "batch")
		tee := open(t, TeeOptions{Layout: layout, Topic: recordedTopic})
		sub, err := zmtp.NewSub(tee.Events(), recordedTopic, zmtp.SubOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		poll.Until(t, "a subscriber", func() bool { return tee.Stats().Subscribers > 0 })
		for i, m := range batches {
			if n := enqueueRecorded(t, tee, m[0]); n > 0 {
				t.Fatalf("%s, batch %d: %d events dropped", release, i, n)
			}
		}
		var got []zmtp.Message
		for len(got) < len(batches) {
			list, err := sub.Receive(within(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range list {
				if d.Message != nil {
					got = append(got, d.Message)
				}
			}
		}
		for i, m := range batches {
			sameFrames(t, fmt.Sprintf("%s, message %d", release, i), got[i], zmtp.Message{[]byte(recordedTopic), encodeSequence(uint64(i)), m[0]})
		}
		answers := recorded(t, release, "answer")
		d, err := zmtp.Dial(nil).Dealer(within(t), tee.Replay(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.Send(zmtp.Message{nil, encodeSequence(uint64(len(batches) - len(answers) + 1))}); err != nil {
			t.Fatal(err)
		}
		for i, want := range answers {
			m, err := d.Receive()
			if err != nil {
				t.Fatal(err)
			}
			sameFrames(t, fmt.Sprintf("%s, frame %d of the answer", release, i), m, want)
		}
	}
}

// enqueueRecorded enqueues the events of a recorded batch in the form of a scheduler's events.
func enqueueRecorded(t *testing.T, tee *Tee, payload []byte) (dropped int) {
	t.Helper()
	b, err := Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	var events []scheduler.KVEvent
	texts := map[uint64]Text{}
	for i := range b.Events {
		e := &b.Events[i]
		if e.Kind == Removed { // a scheduler removes many blocks in one event
			if n := len(events); n > 0 && len(events[n-1].Removed) > 0 {
				events[n-1].Removed = append(events[n-1].Removed, e.Blocks...)
			} else {
				events = append(events, scheduler.KVEvent{Removed: e.Blocks})
			}
			continue
		}
		for k, h := range e.Blocks { // one event per block
			texts[h] = Text{Tokens: e.Tokens[k*e.BlockTokens : (k+1)*e.BlockTokens]}
			one := scheduler.KVEvent{Parent: e.Parent, HasParent: e.HasParent, Stored: []scheduler.KVBlock{{Seq: h}}}
			if k > 0 {
				one.Parent, one.HasParent, one.Continues = e.Blocks[k-1], true, true
			}
			events = append(events, one)
		}
	}
	return tee.EnqueueStep(events, func(b scheduler.KVBlock) (Text, bool) { x, ok := texts[b.Seq]; return x, ok })
}

// sameFrames compares messages, except the time of the batch in its bytes 2 to 9.
func sameFrames(t *testing.T, name string, got, want zmtp.Message) {
	t.Helper()
	mask := func(m zmtp.Message) string {
		var text []string
		for _, f := range m {
			f = slices.Clone(f)
			if len(f) > 20 {
				clear(f[2:10])
			}
			text = append(text, hex.EncodeToString(f))
		}
		return strings.Join(text, " | ")
	}
	if mask(got) != mask(want) {
		t.Errorf("%s:\n%s, want\n%s", name, mask(got), mask(want))
	}
}

// A subscriber reads the same names, parents and token hashes from every layout of vLLM. The test uses live batches,
// answers, and hashes as bytes.
func TestLayoutsRead(t *testing.T) {
	read := map[string][]Change{}
	for _, layout := range []Layout{VLLM019, VLLM032, VLLM033} {
		for _, hashBytes := range []bool{false, true} {
			tee := open(t, TeeOptions{Layout: layout, HashBytes: hashBytes, Topic: recordedTopic})
			batches := recorded(t, "0.33.0", "batch")
			half := len(batches) / 2
			for _, m := range batches[:half] {
				enqueueRecorded(t, tee, m[0])
			}
			published(t, tee, uint64(half))
			var got []Change
			n := normaliser{}
			s, err := Subscribe(SubscriberOptions{Events: tee.Events(), Replay: tee.Replay(), Topic: "kv@",
				Warn: func(s string) { t.Error(s) }, Observe: func(r Received) { got = n.appendChanges(&r.Batch, got) }})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Applied(within(t), uint64(half)); err != nil {
				t.Fatal(err)
			}
			for _, m := range batches[half:] {
				enqueueRecorded(t, tee, m[0])
			}
			if err := s.Applied(within(t), uint64(len(batches))); err != nil {
				t.Fatal(err)
			}
			if st := s.Stats(); st.Replayed == 0 || st.Failures+st.Incomplete+st.Undecodable > 0 {
				t.Errorf("%v: %+v", layout, st)
			}
			s.Close()
			read[fmt.Sprint(layout, hashBytes)] = got
		}
	}
	want := read["vllm-0.19 false"]
	if len(want) < 30 || want[0].Event.Stored[0].Tokens == 0 {
		t.Fatalf("%d changes: %+v", len(want), want)
	}
	for name, got := range read {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, want)
		}
	}
}

// A hash as bytes ends with its number. The other bytes of the hash also depend on the number.
func TestHashBytes(t *testing.T) {
	v := vllmEncoder{VLLM033, true}
	a, b := v.appendHash(nil, 7), v.appendHash(nil, 8)
	if len(a) != 34 || a[0] != 0xc4 || a[1] != 32 || binary.BigEndian.Uint64(a[26:]) != 7 || bytes.Equal(a[2:26], b[2:26]) {
		t.Errorf("%x and %x", a, b)
	}
}

// In vLLM's layouts a step is one batch. Each removed block is one event, and blocks with unknown tokens are omitted.
func TestStepIsBatch(t *testing.T) {
	tee := open(t, TeeOptions{Layout: VLLM033, BlockTokens: 2, BufferSteps: 2})
	known := func(b scheduler.KVBlock) (Text, bool) {
		return Text{Tokens: []uint32{uint32(b.Seq), 5}, LoRA: "a"}, b.Seq < 100
	}
	block := func(n uint64) []scheduler.KVBlock { return []scheduler.KVBlock{{Seq: n}} }
	for n := range uint64(3) {
		dropped := tee.EnqueueStep([]scheduler.KVEvent{
			{Removed: []uint64{1, 2}}, {Stored: block(3 + n)}, {Stored: block(100)},
			{Stored: block(4 + n), Parent: 3 + n, HasParent: true}, {Stored: block(5 + n), Parent: 4 + n, HasParent: true, Copy: true, Continues: true},
		}, known)
		if dropped != 1 {
			t.Fatalf("%d dropped, want the one of unknown tokens", dropped)
		}
	}
	if tee.Enqueue([]scheduler.KVEvent{{Stored: block(1)}}) != 1 {
		t.Error("tokens of a block came from nowhere")
	}
	published(t, tee, 3)
	var got []Received
	s, err := Subscribe(SubscriberOptions{Events: tee.Events(), Replay: tee.Replay(), Observe: func(r Received) { got = append(got, r) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Applied(within(t), 3); err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, e := range got[0].Batch.Events {
		text = append(text, fmt.Sprint(e.Kind, e.Blocks, e.Tokens, e.LoRA, e.Medium))
	}
	want := []string{"BlockRemoved [1] []GPU", "BlockRemoved [2] []GPU", "BlockStored [4] [4 5]aGPU", "BlockStored [5 6] [5 5 6 5]aGPU"}
	if len(got) != 2 || got[0].Origin != Replayed || got[0].Sequence != 1 || !slices.Equal(text, want) {
		t.Errorf("%d batches kept, want 2 and no snapshot; %q, want %q", len(got), text, want)
	}
	if st := tee.Stats(); st.Unknown != 4 || st.Snapshots != 0 || st.Replays == 0 {
		t.Errorf("%+v", st)
	}
}

func TestLayoutOf(t *testing.T) {
	for release, want := range map[string]Layout{"0.19.1": VLLM019, "vllm-0.19": VLLM019, "0.31": VLLM019, "0.32.0": VLLM032, "vllm-0.33": VLLM033, "1.0": VLLM033} {
		if got, err := LayoutOf(release); err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", release, got, err, want)
		}
	}
	for _, release := range []string{"", "vllm", "0", "x.1", "0.y", "-1.2"} {
		if got, err := LayoutOf(release); err == nil {
			t.Errorf("%q is %v, want an error", release, got)
		}
	}
}
