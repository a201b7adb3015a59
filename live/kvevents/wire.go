// Package kvevents carries the changes of an engine's KV cache to routers (docs/servers.md). It has the events on the
// wire, a publisher and a subscriber. The publisher never holds up the engine and answers late subscribers with a
// snapshot. The subscriber notices missed events and catches up.
//
// A PUB socket sends a message for each event: topic, sequence number (8 bytes, big-endian, from 0) and
// batch. Lost messages are a gap. A ROUTER socket is asked ["", first number]; it answers
// ["", number, batch] for each, and at the end number -1.
//
// A batch is msgpack, [seconds, events, rank]. BlockStored has tokens_hashes, a hash of the tokens of each
// block: XXH3 with seed 1337, as the router hashes prompts. Batches with token_ids, as of vLLM, are read too.
// An engine can hold several blocks of the same content, which it stores and removes under one name. A
// subscriber therefore counts, by rank and memory. A clear, a snapshot or a restart of the publisher resets
// the counts.
//
// The publisher keeps the last 10,000 batches. It answers requests for older ones with a snapshot:
//
//   - number -2, with the number S of the last batch in it;
//   - a clear, which removes only what this publisher has announced;
//   - every cached block as a separate BlockStored, 1,000 to a batch of one rank, in the order of a walk from the roots;
//   - the end.
//
// A snapshot is the state after exactly batch S. A subscriber applies it as a whole or not at all. The engine
// never waits: events go into a queue (100,000 by default).
//
// vLLM has three layouts:
//
//   - To 0.31 an event is an array, the type first. An answer is ["", number, batch], its end ["", -1, ""].
//   - In 0.32 an event is a map without defaults. An answer is ["", topic, number, batch], its end ["", "", -1, ""].
//   - From 0.33 on the map of BlockStored has a head of three bytes.
//
// A batch of vLLM is one step of the engine. BlockStored has token_ids, lora_name, medium GPU, and from 0.32
// on group 0 of full_attention. A BlockRemoved is of one block. A hash is a number, or 32 bytes that end with
// it (HashBytes). There are no snapshots.
//
// Read wire.go, layout.go, decode.go, decodeevent.go, normalise.go for the events; ring.go, snapshot.go,
// tee.go, steps.go, answer.go for the publisher; subscriber.go, catchup.go, index.go for
// the subscriber; zmtp is the wire below.
package kvevents

import (
	"github.com/tinylib/msgp/msgp"

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

// Batch is the content of one message.
type Batch struct {
	Time    float64 // seconds since the epoch
	Events  []Event
	Rank    int32 // data-parallel rank of the events
	HasRank bool  // false: they are the subscriber's own rank's
}

// Event is the wire form of one event.
type Event struct {
	Kind      Kind
	Blocks    []uint64 // the engine's names of the blocks, consecutive for Stored; of Ignored, the blocks that are in Medium now
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
	CacheKind           string // full_attention, …; "" if the event has none
}

// Type returns the name of the event: that of its kind, or BlockUpdated for blocks that are in another memory now, which readers
// of an Ignored event need not know.
func (e *Event) Type() string {
	if e.Kind == Ignored && len(e.Blocks) > 0 {
		return "BlockUpdated"
	}
	return e.Kind.String()
}

// tierOf returns the memory an event is about. Unknown names are the device.
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
	return b.appendWith(dst, func(dst []byte, e *Event) []byte { return e.appendTo(dst) })
}

// appendWith appends the batch with events as event appends them.
func (b *Batch) appendWith(dst []byte, event func([]byte, *Event) []byte) []byte {
	dst = msgp.AppendArrayHeader(dst, 3)
	dst = msgp.AppendFloat64(dst, b.Time)
	dst = msgp.AppendArrayHeader(dst, uint32(len(b.Events)))
	for i := range b.Events {
		dst = event(dst, &b.Events[i])
	}
	if !b.HasRank {
		return msgp.AppendNil(dst)
	}
	return appendInt(dst, int64(b.Rank))
}

// appendInt appends a number in its shortest form. Those of msgp for signed
// numbers above 0 are longer.
func appendInt(dst []byte, n int64) []byte {
	if n < 0 {
		return msgp.AppendInt64(dst, n)
	}
	return msgp.AppendUint64(dst, uint64(n))
}

// appendHashes appends hashes as signed numbers of 64 bits.
func appendHashes(dst []byte, key string, list []uint64) []byte {
	dst = msgp.AppendArrayHeader(msgp.AppendString(dst, key), uint32(len(list)))
	for _, h := range list {
		dst = appendInt(dst, int64(h))
	}
	return dst
}

func appendText(dst []byte, key, text string) []byte {
	return msgp.AppendString(msgp.AppendString(dst, key), text)
}

func (e *Event) appendTo(dst []byte) []byte {
	told := e.Medium != "" && (e.Kind <= Removed || len(e.Blocks) > 0)
	dst = msgp.AppendMapHeader(dst, e.countKeys(told))
	dst = appendText(dst, "type", e.Kind.String())
	switch e.Kind {
	case Stored:
		dst = e.appendStored(dst)
	case Removed:
		dst = appendHashes(dst, "block_hashes", e.Blocks)
	case Ignored:
		if len(e.Blocks) > 0 {
			dst = appendHashes(dst, updatedKey, e.Blocks)
		}
	}
	if told {
		dst = appendText(dst, mediumKey(e.Kind), e.Medium)
	}
	return dst
}

// mediumKey returns the key of the memory of an event.
func mediumKey(k Kind) string {
	if k == Ignored {
		return "updated_medium"
	}
	return "medium"
}

// updatedKey is the key of the blocks of an Ignored event that are in another memory now.
const updatedKey = "updated_block_hashes"

// countKeys returns the number of keys of an event, with or without its medium.
func (e *Event) countKeys(medium bool) uint32 {
	n := uint32(1)
	switch e.Kind {
	case Stored:
		n += 4
	case Removed:
		n++
	case Ignored:
		n += uint32(min(len(e.Blocks), 1))
	}
	for _, has := range []bool{medium, e.Kind == Stored && e.LoRA != "", e.Kind == Stored && e.Objects != nil} {
		if has {
			n++
		}
	}
	return n
}

func (e *Event) appendStored(dst []byte) []byte {
	dst = appendHashes(dst, "block_hashes", e.Blocks)
	dst = msgp.AppendString(dst, "parent_block_hash")
	if e.HasParent {
		dst = appendInt(dst, int64(e.Parent))
	} else {
		dst = msgp.AppendNil(dst)
	}
	if e.Tokens != nil && e.TokensHashes == nil {
		dst = msgp.AppendArrayHeader(msgp.AppendString(dst, "token_ids"), uint32(len(e.Tokens)))
		for _, t := range e.Tokens {
			dst = appendInt(dst, int64(t))
		}
	} else {
		dst = appendHashes(dst, "tokens_hashes", e.TokensHashes)
	}
	dst = appendInt(msgp.AppendString(dst, "block_size"), int64(e.BlockTokens))
	if e.LoRA != "" {
		dst = appendText(dst, "lora_name", e.LoRA)
	}
	if e.Objects != nil {
		dst = appendObjects(dst, e.Objects)
	}
	return dst
}

func appendObjects(dst []byte, blocks [][]Object) []byte {
	dst = msgp.AppendArrayHeader(msgp.AppendString(dst, "block_mm_infos"), uint32(len(blocks)))
	for _, list := range blocks {
		if list == nil {
			dst = msgp.AppendNil(dst)
			continue
		}
		dst = msgp.AppendString(msgp.AppendMapHeader(dst, 1), "mm_objects")
		dst = msgp.AppendArrayHeader(dst, uint32(len(list)))
		for _, o := range list {
			dst = msgp.AppendString(msgp.AppendMapHeader(dst, 2), "mm_hash")
			dst = msgp.AppendUint64(dst, o.Hash)
			dst = msgp.AppendArrayHeader(msgp.AppendString(dst, "offsets"), uint32(len(o.Ranges)))
			for _, r := range o.Ranges {
				dst = appendInt(appendInt(msgp.AppendArrayHeader(dst, 2), int64(r[0])), int64(r[1]))
			}
		}
	}
	return dst
}
