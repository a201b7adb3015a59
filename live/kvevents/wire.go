// Package kvevents carries what changes in an engine's KV cache to whoever
// routes requests (docs/kv-events.md): the events on the wire, a publisher that
// never holds up the engine and answers late comers with a snapshot, and a
// subscriber that notices what it missed and catches up.
//
// Read wire.go, decode.go, decodeevent.go, normalise.go for the events; ring.go, snapshot.go,
// tee.go, answer.go for the publisher; subscriber.go, catchup.go, index.go for
// the subscriber; zmtp is the wire below.
package kvevents

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/replay-llm/replay/scheduler"
)

// Kind is a kind of event.
type Kind uint8

// The kinds of events there are.
const (
	Stored  Kind = iota // blocks are cached now
	Removed             // blocks are gone
	Cleared             // all blocks are gone
	Ignored             // nothing that matters here
)

// String returns the kind's name on the wire.
func (k Kind) String() string {
	return [...]string{"BlockStored", "BlockRemoved", "AllBlocksCleared", "Ignored"}[k]
}

// Batch is what one message carries.
type Batch struct {
	Time    float64 // seconds since the epoch
	Events  []Event
	Rank    int32 // data-parallel rank of the events
	HasRank bool  // false: they are the subscriber's own rank's
}

// Event is one event as it is on the wire.
type Event struct {
	Kind      Kind
	Blocks    []uint64 // the engine's names of the blocks, consecutive for Stored
	Parent    uint64   // the block before Blocks[0], for Stored
	HasParent bool

	// Stored carries either the hashes of the blocks' tokens, one per block, or
	// the tokens themselves.
	TokensHashes []uint64
	Tokens       []uint32
	Eagle        bool // Tokens were pairs: a block's hash reaches one token further
	BlockTokens  int  // tokens per block

	Medium  string     // the memory the event is about; "" is the device
	LoRA    string     // adapter name; "" is none
	Objects [][]Object // per block, multimodal objects in it

	Group, Window       int64 // of the cache the event is about
	HasGroup, HasWindow bool
	CacheKind           string // full_attention, …; "" where the event does not tell
}

// tierOf returns the memory an event is about. Names nobody knows are the device.
func (e *Event) tierOf() scheduler.Tier {
	switch e.Medium {
	case "CPU_PINNED", "CPU_TIER1":
		return scheduler.HostPinned
	case "CPU_TIER2", "DISK", "NVME":
		return tierDisk
	case "EXTERNAL", "NETWORK", "REMOTE", "SHARED":
		return tierExternal
	default:
		return scheduler.Device
	}
}

// Tiers that no simulated engine has.
const (
	tierDisk scheduler.Tier = scheduler.HostPinned + 1 + iota
	tierExternal
)

// mediumName returns a tier's name in events that are sent.
func mediumName(t scheduler.Tier) string {
	return [...]string{"", "CPU_PINNED", "DISK", "EXTERNAL"}[t]
}

// Append appends the batch as msgpack. It needs no more than TokensHashes or
// Tokens of each Stored event.
func (b *Batch) Append(dst []byte) []byte {
	buf := bytes.NewBuffer(dst)
	w := writer{msgpack.NewEncoder(buf)}
	w.writeArray(3)
	w.mustWrite(w.e.EncodeFloat64(b.Time))
	w.writeArray(len(b.Events))
	for i := range b.Events {
		w.writeEvent(&b.Events[i])
	}
	if b.HasRank {
		w.writeInt(int64(b.Rank))
	} else {
		w.mustWrite(w.e.EncodeNil())
	}
	return buf.Bytes()
}

// writer writes msgpack to memory, which does not fail.
type writer struct{ e *msgpack.Encoder }

func (w writer) mustWrite(err error) {
	if err != nil {
		panic(fmt.Sprintf("kvevents: writing to memory: %v", err))
	}
}

func (w writer) writeArray(n int)     { w.mustWrite(w.e.EncodeArrayLen(n)) }
func (w writer) writeInt(n int64)     { w.mustWrite(w.e.EncodeInt(n)) }
func (w writer) writeString(k string) { w.mustWrite(w.e.EncodeString(k)) }

// writeHashes writes hashes as signed numbers of 64 bits.
func (w writer) writeHashes(key string, list []uint64) {
	w.writeString(key)
	w.writeArray(len(list))
	for _, h := range list {
		w.writeInt(int64(h))
	}
}

func (w writer) writeEvent(e *Event) {
	w.mustWrite(w.e.EncodeMapLen(e.countKeys()))
	w.writeString("type")
	w.writeString(e.Kind.String())
	switch e.Kind {
	case Stored:
		w.writeStored(e)
	case Removed:
		w.writeHashes("block_hashes", e.Blocks)
	}
	if e.Medium != "" && e.Kind <= Removed {
		w.writeString("medium")
		w.writeString(e.Medium)
	}
}

// countKeys returns the number of keys of an event.
func (e *Event) countKeys() int {
	n := 1
	switch e.Kind {
	case Stored:
		n += 4
		if e.LoRA != "" {
			n++
		}
		if e.Objects != nil {
			n++
		}
	case Removed:
		n++
	}
	if e.Medium != "" && e.Kind <= Removed {
		n++
	}
	return n
}

func (w writer) writeStored(e *Event) {
	w.writeHashes("block_hashes", e.Blocks)
	w.writeString("parent_block_hash")
	if e.HasParent {
		w.writeInt(int64(e.Parent))
	} else {
		w.mustWrite(w.e.EncodeNil())
	}
	if e.Tokens != nil && e.TokensHashes == nil {
		w.writeString("token_ids")
		w.writeArray(len(e.Tokens))
		for _, t := range e.Tokens {
			w.writeInt(int64(t))
		}
	} else {
		w.writeHashes("tokens_hashes", e.TokensHashes)
	}
	w.writeString("block_size")
	w.writeInt(int64(e.BlockTokens))
	if e.LoRA != "" {
		w.writeString("lora_name")
		w.writeString(e.LoRA)
	}
	if e.Objects != nil {
		w.writeObjects(e.Objects)
	}
}

func (w writer) writeObjects(blocks [][]Object) {
	w.writeString("block_mm_infos")
	w.writeArray(len(blocks))
	for _, list := range blocks {
		if list == nil {
			w.mustWrite(w.e.EncodeNil())
			continue
		}
		w.mustWrite(w.e.EncodeMapLen(1))
		w.writeString("mm_objects")
		w.writeArray(len(list))
		for _, o := range list {
			w.mustWrite(w.e.EncodeMapLen(2))
			w.writeString("mm_hash")
			w.mustWrite(w.e.EncodeUint(o.Hash))
			w.writeString("offsets")
			w.writeArray(len(o.Ranges))
			for _, r := range o.Ranges {
				w.writeArray(2)
				w.writeInt(int64(r[0]))
				w.writeInt(int64(r[1]))
			}
		}
	}
}
