package kvevents

import (
	"runtime"
	"testing"

	"github.com/replay-llm/replay/scheduler"
)

// The memory of an index does not grow with the number of removed blocks.
func TestIndexForgets(t *testing.T) {
	if testing.Short() {
		t.Skip("a long life takes long")
	}
	x := NewIndex(func(s string) { t.Error(s) })
	f := x.Feed(0)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	churn := func(from, to uint64) {
		for seq := from; seq < to; seq++ {
			f.Take([]Change{
				{Event: store(0, scheduler.KVBlock{Seq: seq, Tokens: seq})},
				{Event: scheduler.KVEvent{Removed: []uint64{seq}}},
			})
		}
	}
	churn(1, 50_000)
	before := heap()
	churn(50_000, 400_000)
	if after := heap(); after > before+8<<20 {
		t.Errorf("350,000 blocks that came and went left %d MiB", (after-before)>>20)
	}
	if x.Size() != 0 {
		t.Errorf("%d blocks", x.Size())
	}
}
