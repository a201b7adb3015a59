// Package kvevents carries the changes of an engine's KV cache to routers (docs/servers.md). The package defines the
// events on the wire, a publisher and a subscriber. The publisher never blocks the engine, and answers late
// subscribers with a snapshot. The subscriber detects and requests missed events.
//
// A PUB socket sends a message for each event: topic, sequence number (8 bytes, big-endian, from 0) and batch. A gap
// in the numbers shows lost messages. A request to the ROUTER socket is ["", first number]. The answer is ["",
// number, batch] for each batch, and number -1 at the end.
//
// A batch is msgpack, [seconds, events, rank]. BlockStored has tokens_hashes, a hash of the tokens of each block:
// XXH3 with seed 1337, as the router hashes prompts. Batches with token_ids, as vLLM sends them, are decoded, too. An
// engine can store and remove several blocks with the same content under one name. A subscriber therefore counts the
// blocks of each name by rank and memory. A clear, a snapshot or a restart of the publisher resets the counts.
//
// The publisher keeps the last 10,000 batches. The publisher answers requests for older batches with a snapshot:
//
//   - number -2, with the number S of the last included batch;
//   - a clear, which removes only what this publisher has announced;
//   - every cached block as a separate BlockStored, 1,000 to a batch of one rank, in the order of a walk from the roots;
//   - the end.
//
// A snapshot is the state after exactly batch S. A subscriber applies a snapshot completely or not at all. The engine
// never waits, because events are queued (100,000 by default).
//
// vLLM has three layouts:
//
//   - Up to 0.31 an event is an array with the type first. An answer is ["", number, batch], its end ["", -1, ""].
//   - In 0.32 an event is a map without defaults. An answer is ["", topic, number, batch], its end ["", "", -1, ""].
//   - From 0.33 on the map of BlockStored has a header of three bytes.
//
// A batch of vLLM is one step of the engine. BlockStored has token_ids, lora_name, medium GPU, and from 0.32 on group
// 0 of full_attention. Each BlockRemoved has one block. A hash is a number, or 32 bytes with the number at the end
// (HashBytes). There are no snapshots.
//
// Read wire.go, layout.go, decode.go, decodeevent.go, normalise.go for the events; ring.go, snapshot.go, tee.go,
// steps.go, answer.go for the publisher; subscriber.go, catchup.go, index.go for the subscriber. Package zmtp is the
// protocol below.
package kvevents

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/replay-llm/replay/scheduler"
)

// Kind is the type of an event.
type Kind uint8

// Values of Kind.
const (
	Stored  Kind = iota // blocks were cached
	Removed             // blocks were removed
	Cleared             // all blocks were removed
	Ignored             // no effect on an index
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
	HasRank bool  // false: the events have the subscriber's Rank
}

// Event is the wire form of one event.
type Event struct {
	Kind      Kind
	Blocks    []uint64 // names of the blocks: consecutive for Stored; for Ignored the blocks that are in Medium now
	Parent    uint64   // the block before Blocks[0], for Stored
	HasParent bool

	// Stored has either one token hash per block or the tokens.
	TokensHashes []uint64
	Tokens       []uint32
	Eagle        bool // Tokens were pairs: a block's hash includes the next token
	BlockTokens  int  // tokens per block

	Medium  string     // memory of the blocks; "": the device
	LoRA    string     // name of the adapter; "": none
	Objects [][]Object // multimodal objects of each block

	Group, Window       int64 // group and window of the event's cache
	HasGroup, HasWindow bool
	CacheKind           string // for example full_attention; "": not in the event
}

// Type returns the name of the event. The name is that of the event's kind, or BlockUpdated for blocks that moved to
// another memory, which readers may ignore.
func (e *Event) Type() string {
	if e.Kind == Ignored && len(e.Blocks) > 0 {
		return "BlockUpdated"
	}
	return e.Kind.String()
}

// tierOf returns the memory of an event. Unknown names mean the device.
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

// Tiers that no simulated engine uses.
const (
	tierDisk scheduler.Tier = scheduler.HostPinned + 1 + iota
	tierExternal
)

// mediumName returns a tier's name in published events.
func mediumName(t scheduler.Tier) string {
	return [...]string{"", "CPU_PINNED", "DISK", "EXTERNAL"}[t]
}

// Append appends the batch as msgpack. For Stored events Append writes either TokensHashes or Tokens.
func (b *Batch) Append(dst []byte) []byte {
	return b.appendWith(dst, func(dst []byte, e *Event) []byte { return e.appendTo(dst) })
}

// appendWith appends the batch, and its events with the function event.
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

// appendInt appends a number in its shortest form. msgp encodes positive signed numbers in a longer form.
func appendInt(dst []byte, n int64) []byte {
	if n < 0 {
		return msgp.AppendInt64(dst, n)
	}
	return msgp.AppendUint64(dst, uint64(n))
}

// appendHashes appends hashes as signed 64-bit numbers.
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

// mediumKey returns the key for the memory of an event.
func mediumKey(k Kind) string {
	if k == Ignored {
		return "updated_medium"
	}
	return "medium"
}

// updatedKey is the key for the blocks of an Ignored event that moved to another memory.
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
