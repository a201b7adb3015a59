package blocks

import (
	"fmt"

	"github.com/replay-llm/replay/scheduler"
)

// Host is host memory for the KV blocks of an engine: its blocks, the evictable blocks, and the transfers in both
// directions.
//
// Host evicts the oldest block that has no reader and no descendant in host memory.
type Host struct {
	Catalog *Catalog
	blocks  int // capacity in blocks
	used    int // resident blocks
	idle    Lineage
	transfers

	events bool            // events are captured
	out    *scheduler.Pass // the running pass
}

// NewHost returns empty host memory for blocks of n tokens. The host appends its events to passes if capture is
// CaptureEvents.
func NewHost(cfg Offload, blockTokens int, capture scheduler.Capture) *Host {
	if cfg.BatchBlocks <= 0 {
		panic(fmt.Sprintf("offload: batches of %d blocks, must be > 0", cfg.BatchBlocks))
	}
	k := newCatalog()
	return &Host{
		Catalog: k, blocks: cfg.Blocks, idle: NewLineage(k), transfers: newTransfers(cfg, blockTokens),
		events: capture == scheduler.CaptureEvents,
	}
}

// Given reports whether host memory has a capacity of at least one block.
func (h *Host) Given() bool { return h.blocks > 0 }

// Has reports whether a block of that name is in host memory, and returns it.
func (h *Host) Has(name Name) (ID, bool) {
	b := h.Catalog.Find(name)
	return b, b != NoBlock && h.Catalog.At(b).inHost
}

// Wants reports whether b should be sent: host memory has capacity, b is not resident, and no transfer of b is
// pending.
func (h *Host) Wants(b ID) bool {
	k := h.Catalog.At(b)
	return h.blocks > 0 && !k.inHost && !k.sending
}

// storeBlock makes b resident and evicts the oldest leaf if host memory is full. storeBlock stores nothing if b is
// resident already or no block can be evicted.
func (h *Host) storeBlock(b ID) (evicted ID, ok bool) {
	evicted = NoBlock
	if h.Catalog.At(b).inHost {
		return NoBlock, false
	}
	if h.used == h.blocks {
		if evicted = h.idle.Evict(); evicted == NoBlock {
			return NoBlock, false
		}
		h.Catalog.At(evicted).inHost = false
		h.used--
	}
	h.Catalog.At(b).inHost = true
	h.used++
	h.idle.Insert(b)
	return evicted, true
}

// keepCopy stores b after its transfer to the host, if possible, and records the events.
func (h *Host) keepCopy(b ID) {
	k := h.Catalog.At(b)
	k.sending = false
	evicted, stored := h.storeBlock(b)
	if evicted != NoBlock {
		if h.events {
			h.out.Events = append(h.out.Events, scheduler.KVEvent{
				Removed: []uint64{h.Catalog.At(evicted).Hashes.Seq}, Tier: scheduler.HostPinned,
			})
		}
		h.Catalog.Drop(evicted)
	}
	if stored && h.events {
		h.out.Events = append(h.out.Events, scheduler.KVEvent{
			Parent: k.Hashes.Parent, HasParent: k.Hashes.Follows,
			Stored: []scheduler.KVBlock{k.Hashes.KVBlock}, Tier: scheduler.HostPinned,
		})
	}
	h.Catalog.Drop(b)
}

// pinBlock protects the resident block b from eviction until unpinBlock.
func (h *Host) pinBlock(b ID) {
	k := h.Catalog.At(b)
	if k.readers == 0 {
		h.idle.Remove(b)
	}
	k.readers++
}

func (h *Host) unpinBlock(b ID) {
	k := h.Catalog.At(b)
	if k.readers--; k.readers == 0 {
		h.idle.Insert(b)
	}
}

// Check panics if the counters do not match the blocks in host memory and in transfers.
func (h *Host) Check() {
	resident, read, sending := 0, 0, 0
	for _, k := range h.Catalog.Blocks {
		if k.inHost {
			resident++
		}
		if k.readers > 0 {
			read++
		}
		if k.sending {
			sending++
		}
	}
	if resident != h.used || h.used > h.blocks || h.idle.len+read != resident {
		panic(fmt.Sprintf("host memory: %d idle + %d read != %d resident of %d (%d counted)",
			h.idle.len, read, h.used, h.blocks, resident))
	}
	if moving := h.Moving(); moving != sending {
		panic(fmt.Sprintf("host memory: %d blocks on their way, %d counted", sending, moving))
	}
	h.idle.Check("host")
}
