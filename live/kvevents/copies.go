package kvevents

import (
	"maps"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// counting is an index of the blocks in one memory of the workers. An engine may store several blocks with the same
// content and name. The name is removed with the last of these blocks.
type counting struct {
	*router.Index
	more map[router.Member]map[uint64]int32 // number of further blocks of a name, at least 1
	left []uint64                           // result of removeCopies
}

func newCounting() *counting {
	return &counting{Index: router.NewIndex(), more: make(map[router.Member]map[uint64]int32)}
}

// Apply applies one event of a worker.
func (x *counting) Apply(w sim.WorkerID, e scheduler.KVEvent) error {
	m := router.Member{Worker: w, Rank: e.Rank}
	for _, b := range e.Stored {
		if !x.Has(m, b.Seq) {
			continue
		}
		if x.more[m] == nil {
			x.more[m] = make(map[uint64]int32)
		}
		x.more[m][b.Seq]++
	}
	if more := x.more[m]; len(more) > 0 && len(e.Removed) > 0 {
		e.Removed = x.removeCopies(more, e.Removed)
	}
	return x.Index.Apply(w, e)
}

// removeCopies subtracts removed blocks from the further blocks. removeCopies returns the names without a remaining
// block, valid until the next call.
func (x *counting) removeCopies(more map[uint64]int32, names []uint64) []uint64 {
	x.left = x.left[:0]
	for _, name := range names {
		switch more[name] {
		case 0:
			x.left = append(x.left, name)
		case 1:
			delete(more, name)
		default:
			more[name]--
		}
	}
	return x.left
}

// Clear removes all blocks of all ranks of a worker.
func (x *counting) Clear(w sim.WorkerID) {
	maps.DeleteFunc(x.more, func(m router.Member, _ map[uint64]int32) bool { return m.Worker == w })
	x.Index.Clear(w)
}

// ClearMember removes all blocks of one rank of a worker.
func (x *counting) ClearMember(m router.Member) {
	delete(x.more, m)
	x.Index.ClearMember(m)
}
