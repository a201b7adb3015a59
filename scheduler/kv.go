package scheduler

import "github.com/replay-llm/replay/sim/prompt"

// Capture is how much of the KV cache's history a core reports.
type Capture uint8

const (
	// CaptureNone reports nothing: no router reads it (round robin, decode workers).
	CaptureNone Capture = iota
	// CaptureResidency fills Pass.KV, what a router's index needs to know.
	CaptureResidency
	// CaptureEvents fills Pass.Events, what the engine would publish.
	CaptureEvents
)

// KVChange is a change of the cached part of one prompt node: exactly the first
// Blocks of its blocks are now (0: none of them).
//
// It is a complete account where a cached block's parent is always cached too,
// which holds whenever blocks are identified by their content.
type KVChange struct {
	Node   prompt.NodeID
	Blocks int32
}

// KVEvent is a change of the cache as an engine announces it: blocks stored
// under a parent, blocks removed, or blocks moved.
type KVEvent struct {
	Parent    uint64 // sequence hash of the block before Stored[0]
	HasParent bool
	Stored    []KVBlock
	Removed   []uint64 // sequence hashes
	// Moved are the sequence hashes of blocks that are in Tier now, and were in another memory before. TensorRT-LLM
	// announces them as updated; they stay cached.
	Moved []uint64
	Rank  int32 // data-parallel rank the event is filed under
	Tier  Tier  // the memory the event is about
	// Copy reports that other blocks of the engine have the same content as each of these: lookups find the same as
	// before. Engines announce such blocks, and do not announce that they are copies.
	Copy bool
	// Continues reports that Stored continues where the event before ended, for the same
	// request: the two differ in Copy alone, and engines announce them as one.
	Continues bool
}

// Tier is a memory that holds KV blocks. Routers follow the device alone.
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
	Seq    uint64 // sequence hash: the block and everything before it
	Tokens uint64 // local hash: the block's tokens alone
}
