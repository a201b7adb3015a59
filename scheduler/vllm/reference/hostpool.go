package reference

// hostPool is the KV blocks in host memory: which blocks are there, and which
// of these may go.
type hostPool struct {
	catalog *catalog
	blocks  int // room
	used    int // blocks resident
	idle    lineage
}

func newHostPool(blocks int, k *catalog) hostPool {
	return hostPool{catalog: k, blocks: blocks, idle: lineage{catalog: k}}
}

// wants says that a copy of b must be sent before its place on the GPU can go.
func (h *hostPool) wants(b blockID) bool {
	k := &h.catalog.blocks[b]
	return h.blocks > 0 && !k.inHost && !k.sending
}

// store makes b resident, in place of the leaf that came first when there is no
// room. It stores nothing when b is there or nothing may go.
func (h *hostPool) store(b blockID) (evicted blockID, ok bool) {
	evicted = noBlock
	if h.catalog.blocks[b].inHost {
		return noBlock, false
	}
	if h.used == h.blocks {
		if evicted = h.idle.evict(); evicted == noBlock {
			return noBlock, false
		}
		h.catalog.blocks[evicted].inHost = false
		h.used--
	}
	h.catalog.blocks[b].inHost = true
	h.used++
	h.idle.insert(b)
	return evicted, true
}

// pin keeps b, which is resident, until unpin.
func (h *hostPool) pin(b blockID) {
	k := &h.catalog.blocks[b]
	if k.readers == 0 {
		h.idle.remove(b)
	}
	k.readers++
}

func (h *hostPool) unpin(b blockID) {
	k := &h.catalog.blocks[b]
	if k.readers--; k.readers == 0 {
		h.idle.insert(b)
	}
}
