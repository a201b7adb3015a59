package eventplane

import (
	"encoding/binary"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/replay-llm/replay/live/kvevents"
)

// topic is the topic of all events: the last part of subjects and keys, and the first frame of messages.
const topic = "kv-events"

// device is the memory of all events.
const device = "device"

// change is one event of the event plane: a chain of stored blocks, or names of removed blocks.
type change struct {
	ID      uint64 // 1, 2, 3, …: a gap shows a missed event
	Stored  kvevents.Run
	Removed []uint64
}

// appendChange appends an event of a worker as msgpack. The newer layout adds the residency domain of the blocks.
func (l layout) appendChange(dst []byte, worker uint64, rank int, c *change) []byte {
	n := uint32(3)
	if l.newer {
		n++
	}
	dst = msgp.AppendMapHeader(dst, n)
	dst = msgp.AppendUint64(msgp.AppendString(dst, "worker_id"), worker)
	dst = msgp.AppendString(msgp.AppendString(dst, "storage_tier"), device)
	if l.newer {
		dst = msgp.AppendString(msgp.AppendString(dst, "residency_domain"), "worker")
	}
	dst = msgp.AppendMapHeader(msgp.AppendString(dst, "event"), 3)
	dst = msgp.AppendUint64(msgp.AppendString(dst, "event_id"), c.ID)
	dst = msgp.AppendMapHeader(msgp.AppendString(dst, "data"), 1)
	if len(c.Removed) > 0 {
		dst = msgp.AppendMapHeader(msgp.AppendString(dst, "removed"), 1)
		dst = msgp.AppendArrayHeader(msgp.AppendString(dst, "block_hashes"), uint32(len(c.Removed)))
		for _, h := range c.Removed {
			dst = msgp.AppendUint64(dst, h)
		}
	} else {
		dst = appendStored(msgp.AppendString(dst, "stored"), &c.Stored)
	}
	return msgp.AppendUint64(msgp.AppendString(dst, "dp_rank"), uint64(rank))
}

func appendStored(dst []byte, r *kvevents.Run) []byte {
	dst = msgp.AppendMapHeader(dst, 3)
	dst = msgp.AppendString(dst, "parent_hash")
	if r.HasParent {
		dst = msgp.AppendUint64(dst, r.Parent)
	} else {
		dst = msgp.AppendNil(dst)
	}
	dst = msgp.AppendNil(msgp.AppendString(dst, "start_position"))
	dst = msgp.AppendArrayHeader(msgp.AppendString(dst, "blocks"), uint32(len(r.Blocks)))
	for _, b := range r.Blocks {
		dst = msgp.AppendMapHeader(dst, 3)
		dst = msgp.AppendUint64(msgp.AppendString(dst, "block_hash"), b.Seq)
		dst = msgp.AppendUint64(msgp.AppendString(dst, "tokens_hash"), b.Tokens)
		dst = msgp.AppendNil(msgp.AppendString(dst, "mm_extra_info"))
	}
	return dst
}

// appendEnvelope appends the envelope of a message: publisher, sequence number, time, topic and payload.
func appendEnvelope(dst []byte, publisher, sequence uint64, at time.Time, payload []byte) []byte {
	dst = msgp.AppendMapHeader(dst, 5)
	dst = msgp.AppendUint64(msgp.AppendString(dst, "publisher_id"), publisher)
	dst = msgp.AppendUint64(msgp.AppendString(dst, "sequence"), sequence)
	dst = msgp.AppendUint64(msgp.AppendString(dst, "published_at"), uint64(at.UnixMilli()))
	dst = msgp.AppendString(msgp.AppendString(dst, "topic"), topic)
	return msgp.AppendBytes(msgp.AppendString(dst, "payload"), payload)
}

// frameVersion is the first byte of the last frame of a message over ZeroMQ.
const frameVersion = 1

// appendFrame appends the last frame of a message over ZeroMQ: version, length, envelope.
func appendFrame(dst, envelope []byte) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, frameVersion), uint32(len(envelope)))
	return append(dst, envelope...)
}
