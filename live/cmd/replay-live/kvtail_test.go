package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/scheduler"
)

// kv-tail prints events from before its start: kept batches unchanged, and older events as a snapshot. A block with
// two remaining copies counts as one cached block.
func TestKVTail(t *testing.T) {
	for name, c := range map[string]struct {
		buffer int
		flags  []string
		want   string
		sum    string
	}{
		"kept": {100, nil, `0 replay rank 0 BlockStored 0000000000000001 0000000000000002
1 replay rank 0 BlockRemoved 0000000000000002
2 replay rank 0 BlockStored after 0000000000000001 0000000000000003
3 replay rank 0 BlockStored after 0000000000000001 0000000000000003
4 replay rank 0 BlockStored after 0000000000000001 0000000000000003
5 replay rank 0 BlockRemoved 0000000000000003
`, "6 events in 0 live and 6 replayed batches and 0 snapshots; 0 gaps, 0 not filled; 2 blocks cached\n"},
		"a snapshot": {1, []string{"--json"}, `{"sequence":5,"source":"snapshot","time":1.5,"rank":0,"type":"AllBlocksCleared"}
{"sequence":5,"source":"snapshot","time":1.5,"rank":0,"type":"BlockStored","blocks":["0000000000000001"],"tokens_hashes":["00000000000000ff"],"block_size":4}
{"sequence":5,"source":"snapshot","time":1.5,"rank":0,"type":"BlockStored","blocks":["0000000000000003"],"parent":"0000000000000001","tokens_hashes":["0000000000000bff"],"block_size":4}
{"sequence":5,"source":"snapshot","time":1.5,"rank":0,"type":"BlockStored","blocks":["0000000000000003"],"parent":"0000000000000001","tokens_hashes":["0000000000000bff"],"block_size":4}
`, "4 events in 0 live and 0 replayed batches and 1 snapshots; 0 gaps, 0 not filled; 2 blocks cached\n"},
		"the sum alone": {100, []string{"--quiet"}, "", "6 events in 0 live and 6 replayed batches and 0 snapshots; 0 gaps, 0 not filled; 2 blocks cached\n"},
	} {
		t.Run(name, func(t *testing.T) {
			tee, err := kvevents.NewTee(kvevents.TeeOptions{
				Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", BlockTokens: 4, BufferSteps: c.buffer,
				Now: func() time.Time { return time.UnixMilli(1500) },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tee.Close() }()
			third := scheduler.KVEvent{Parent: 1, HasParent: true, Stored: []scheduler.KVBlock{{Seq: 3, Tokens: 3071}}}
			tee.Enqueue([]scheduler.KVEvent{
				{Stored: []scheduler.KVBlock{{Seq: 1, Tokens: 255}, {Seq: 2, Tokens: 511}}},
				{Removed: []uint64{2}},
				third, third, third, {Removed: []uint64{3}},
			})
			poll.Until(t, "six batches are published", func() bool { return tee.Stats().Published >= 6 })
			count := map[bool]string{true: "6", false: "2"}[c.buffer > 1] // a snapshot is two batches
			args := append([]string{"kv-tail", tee.Events(), "--replay", tee.Replay(), "--count", count}, c.flags...)
			var out, errs bytes.Buffer
			if code := run(args, strings.NewReader(""), &out, &errs); code != 0 {
				t.Fatalf("exit %d: %s", code, &errs)
			}
			if out.String() != c.want || errs.String() != c.sum {
				t.Errorf("prints\n%s%s\nwant\n%s%s", &out, &errs, c.want, c.sum)
			}
		})
	}
}
