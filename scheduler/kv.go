package scheduler

import "github.com/replay-llm/replay/sim/prompt"

// Capture selects the changes of the KV cache that a core reports.
type Capture uint8

const (
	// CaptureNone reports nothing. CaptureNone is for workers without a router that reads the changes (round robin,
	// decode workers).
	CaptureNone Capture = iota
	// CaptureResidency fills Pass.KV with the changes for a router's index.
	CaptureResidency
	// CaptureEvents fills Pass.Events with the events that the engine would publish.
	CaptureEvents
)

// KVChange is a change of the cached part of one prompt node: exactly its first Blocks blocks are cached now; 0 means
// none.
//
// The changes are complete if the parent of a cached block is always cached too. A cached block always has a cached
// parent if blocks are identified by their content.
type KVChange struct {
	Node   prompt.NodeID
	Blocks int32
}

// KVEvent is a change of the cache in the form that an engine publishes: blocks stored under a parent, blocks
// removed, or blocks moved.
type KVEvent struct {
	Parent    uint64 // sequence hash of the block that precedes Stored[0]
	HasParent bool
	Stored    []KVBlock
	Removed   []uint64 // sequence hashes
	// Moved are the sequence hashes of blocks that are in Tier now, and were in another memory before. TensorRT-LLM
	// publishes these blocks as updated, and the blocks stay cached.
	Moved []uint64
	Rank  int32 // data-parallel rank of the event
	Tier  Tier  // the memory of the blocks
	// Copy reports that other blocks of the engine have the same content as each block of this event, so that lookups
	// find the same content as before. Engines publish such blocks without the information that they are copies.
	Copy bool
	// Continues reports that Stored continues the previous event of the same request. The two events differ only in
	// Copy, and engines publish them as one event.
	Continues bool
}

// Tier is a memory with KV blocks. Routers use only the device tier.
type Tier uint8

const (
	Device     Tier = iota // the GPU
	HostPinned             // host memory
)

func (t Tier) String() string {
	return [...]string{"device", "host_pinned"}[t]
}

// KVBlock names one cached block.
type KVBlock struct {
	Seq    uint64 // sequence hash: hash of the block and everything before it
	Tokens uint64 // local hash: hash of the block's tokens only
}
