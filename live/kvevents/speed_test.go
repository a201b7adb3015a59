package kvevents

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
)

// BenchmarkSnapshot measures the parts of a snapshot of 89,700 blocks.
func BenchmarkSnapshot(b *testing.B) {
	k := newCached()
	l := newLoad(9, 89_700+2000, 150)
	l.most = 64
	take := func(events []scheduler.KVEvent) {
		for i := range events {
			k.applyEvent(&events[i])
		}
	}
	for l.detail.Cached+l.detail.Held < 89_700 {
		take(l.step(b))
	}
	l.drain(b, take)
	tee := &Tee{options: TeeOptions{BlockTokens: blockTokens}}
	if err := tee.options.setDefaults(); err != nil {
		b.Fatal(err)
	}
	blocks := k.orderedBlocks()
	var batches [][]byte
	var buffer packed
	for from := 0; from < len(blocks); {
		rank, to := tee.packEvents(blocks, from, &buffer)
		batch := tee.newBatch(rank, buffer.events...)
		batches = append(batches, batch.Append(nil))
		from = to
	}
	var changes []Change
	n := normaliser{blockTokens: blockTokens}
	for _, payload := range batches {
		batch, err := Decode(payload)
		if err != nil {
			b.Fatal(err)
		}
		changes = n.appendChanges(&batch, changes)
	}
	for name, part := range map[string]func(){
		"order": func() { k.orderedBlocks() },
		"encode": func() {
			for from := 0; from < len(blocks); {
				rank, to := tee.packEvents(blocks, from, &buffer)
				batch := tee.newBatch(rank, buffer.events...)
				batch.Append(make([]byte, 0, eventBytes*len(batch.Events)))
				from = to
			}
		},
		"decode": func() {
			for _, payload := range batches {
				if _, err := Decode(payload); err != nil {
					b.Fatal(err)
				}
			}
		},
		"normalise": func() {
			var all []Change
			for _, payload := range batches {
				batch, _ := Decode(payload)
				all = n.appendChanges(&batch, all)
			}
		},
		"index": func() { NewIndex(nil).Feed(0).Replace(changes) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				part()
			}
		})
	}
}
