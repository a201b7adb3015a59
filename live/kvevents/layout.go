package kvevents

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/tinylib/msgp/msgp"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/sim/blockhash"
)

// Layout is a format of batches and answers on the wire.
type Layout uint8

// Values of Layout.
const (
	OwnLayout Layout = iota // hashes of tokens, one event per batch, and snapshots
	VLLM019                 // vLLM up to 0.31: events are arrays
	VLLM032                 // vLLM 0.32: events are maps
	VLLM033                 // vLLM from 0.33
)

// Layouts returns the names of the layouts, in the order of their values.
func Layouts() []string { return []string{"own", "vllm-0.19", "vllm-0.32", "vllm-0.33"} }

// String returns the layout's name.
func (l Layout) String() string { return Layouts()[l] }

// LayoutOf returns the layout of a release of vLLM, such as 0.19.1 or vllm-0.33.
func LayoutOf(release string) (Layout, error) {
	parts := strings.Split(strings.TrimPrefix(release, "vllm-"), ".")
	if len(parts) < 2 {
		return 0, excerpt.Errorf("release is %q, must be one of vLLM, such as 0.33.0", release)
	}
	major, err := strconv.ParseUint(parts[0], 10, 16)
	minor, err2 := strconv.ParseUint(parts[1], 10, 16)
	switch {
	case err != nil || err2 != nil:
		return 0, excerpt.Errorf("release is %q, must be one of vLLM, such as 0.33.0", release)
	case major == 0 && minor < 32:
		return VLLM019, nil
	case major == 0 && minor < 33:
		return VLLM032, nil
	}
	return VLLM033, nil
}

// deviceName is vLLM's name of the GPU memory.
const deviceName = "GPU"

// hasMaps reports whether events are maps.
func (l Layout) hasMaps() bool { return l != VLLM019 }

// answerFrames returns the frames of a batch in an answer, or of the end of the answer.
func (l Layout) answerFrames(topic string, n uint64, payload []byte) zmtp.Message {
	if l == OwnLayout || l == VLLM019 {
		return zmtp.Message{nil, encodeSequence(n), payload}
	}
	if n == endSequence {
		topic = ""
	}
	return zmtp.Message{nil, []byte(topic), encodeSequence(n), payload}
}

// vllmEncoder encodes batches like vLLM.
type vllmEncoder struct {
	layout Layout
	bytes  bool // encode hashes as 32 bytes instead of numbers
}

// appendBatch appends a batch. Stored events need Tokens.
func (v vllmEncoder) appendBatch(dst []byte, b *Batch) []byte {
	return b.appendWith(dst, v.appendEvent)
}

func (v vllmEncoder) appendEvent(dst []byte, e *Event) []byte {
	w := &fields{dst: dst, named: v.layout.hasMaps()}
	switch e.Kind {
	case Stored:
		v.appendStored(w, e)
	case Removed:
		more := uint32(0)
		if e.HasGroup && w.named {
			more = 1
		}
		w.begin(3+more, "BlockRemoved")
		w.key("block_hashes")
		v.appendHashes(w, e.Blocks)
		w.key("medium")
		w.text(e.Medium)
		v.appendGroup(w, e)
	default:
		w.begin(1, e.Kind.String())
	}
	return w.dst
}

func (v vllmEncoder) appendStored(w *fields, e *Event) {
	n := uint32(9)
	if w.named {
		for _, told := range []bool{e.HasGroup, e.CacheKind != "", e.HasWindow} {
			if told {
				n++
			}
		}
	}
	w.wide = v.layout == VLLM033
	w.begin(n, "BlockStored")
	w.key("block_hashes")
	v.appendHashes(w, e.Blocks)
	w.key("parent_block_hash")
	if e.HasParent {
		w.dst = v.appendHash(w.dst, e.Parent)
	} else {
		w.dst = msgp.AppendNil(w.dst)
	}
	w.key("token_ids")
	w.dst = msgp.AppendArrayHeader(w.dst, uint32(len(e.Tokens)))
	for _, t := range e.Tokens {
		w.dst = appendInt(w.dst, int64(t))
	}
	w.key("block_size")
	w.dst = appendInt(w.dst, int64(e.BlockTokens))
	w.key("lora_id")
	w.dst = msgp.AppendNil(w.dst)
	w.key("medium")
	w.text(e.Medium)
	w.key("lora_name")
	w.text(e.LoRA)
	w.key("extra_keys")
	w.dst = msgp.AppendArrayHeader(w.dst, uint32(len(e.Blocks)))
	for range e.Blocks {
		if e.LoRA == "" {
			w.dst = msgp.AppendNil(w.dst)
		} else { // the adapter is part of a block's name
			w.dst = msgp.AppendString(msgp.AppendArrayHeader(w.dst, 1), e.LoRA)
		}
	}
	v.appendGroup(w, e)
	if w.named && e.CacheKind != "" {
		w.key("kv_cache_spec_kind")
		w.text(e.CacheKind)
	}
	if w.named && e.HasWindow {
		w.key("kv_cache_spec_sliding_window")
		w.dst = appendInt(w.dst, e.Window)
	}
}

func (v vllmEncoder) appendGroup(w *fields, e *Event) {
	if w.named && e.HasGroup {
		w.key("group_idx")
		w.dst = appendInt(w.dst, e.Group)
	}
}

func (v vllmEncoder) appendHashes(w *fields, list []uint64) {
	w.dst = msgp.AppendArrayHeader(w.dst, uint32(len(list)))
	for _, h := range list {
		w.dst = v.appendHash(w.dst, h)
	}
}

// appendHash appends the name of a block: a number, or 32 bytes with the number at the end.
func (v vllmEncoder) appendHash(dst []byte, h uint64) []byte {
	if !v.bytes {
		return msgp.AppendUint64(dst, h)
	}
	var name [32]byte
	for i := range uint64(3) {
		binary.BigEndian.PutUint64(name[8*i:], blockhash.Chain(h, i))
	}
	binary.BigEndian.PutUint64(name[24:], h)
	return msgp.AppendBytes(dst, name[:])
}

// fields appends an event as a map, or as an array of values.
type fields struct {
	dst   []byte
	named bool
	wide  bool // use a map header of three bytes, as vLLM does for maps of up to 16 keys
}

// begin appends the header of an event with n fields, including its type.
func (w *fields) begin(n uint32, kind string) {
	switch {
	case !w.named:
		w.dst = msgp.AppendArrayHeader(w.dst, n)
	case w.wide:
		w.dst = append(w.dst, 0xde, byte(n>>8), byte(n))
	default:
		w.dst = msgp.AppendMapHeader(w.dst, n)
	}
	w.key("type")
	w.dst = msgp.AppendString(w.dst, kind)
}

func (w *fields) key(name string) {
	if w.named {
		w.dst = msgp.AppendString(w.dst, name)
	}
}

// text appends a string, or nil for "".
func (w *fields) text(s string) {
	if s == "" {
		w.dst = msgp.AppendNil(w.dst)
	} else {
		w.dst = msgp.AppendString(w.dst, s)
	}
}
