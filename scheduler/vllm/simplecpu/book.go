package simplecpu

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
)

// Book is what the connector keeps of requests by their slots, and of events.
type Book struct {
	Dues   int           // requests with full blocks that have not been offered
	Fresh  []blocks.Slot // admitted for the first time by the pass that is planned
	Again  []blocks.Slot // admitted again by it
	Before uint64        // admissions before it
	users  []User
	due    []bool
	hashes map[Key]blocks.Hashes // of blocks in host memory, while events are captured
}

// NewBook returns an empty book.
func NewBook(capture scheduler.Capture) (b Book) {
	if capture == scheduler.CaptureEvents {
		b.hashes = map[Key]blocks.Hashes{}
	}
	return b
}

// BeginPlan notes that a pass is about to be planned, after a number of admissions.
func (b *Book) BeginPlan(admitted uint64) {
	b.Fresh, b.Again, b.Before = b.Fresh[:0], b.Again[:0], admitted
}

// NoteAdmitted notes that the pass that is planned admits the request in a slot.
func (b *Book) NoteAdmitted(at blocks.Slot, again bool) {
	if again {
		b.Again = append(b.Again, at)
	} else {
		b.Fresh = append(b.Fresh, at)
	}
}

// BeginRequest makes the request in a slot known.
func (b *Book) BeginRequest(at blocks.Slot) {
	for int(at) >= len(b.users) {
		b.users, b.due = append(b.users, User{}), append(b.due, false)
	}
	b.users[at].Reset()
}

// User returns the user in a slot.
func (b *Book) User(at blocks.Slot) *User { return &b.users[at] }

// IsDue reports whether the request in a slot has full blocks that have not been offered.
func (b *Book) IsDue(at blocks.Slot) bool { return b.due[at] }

// SetDue notes whether it has.
func (b *Book) SetDue(at blocks.Slot, due bool) {
	if due == b.due[at] {
		return
	}
	if b.due[at] = due; due {
		b.Dues++
	} else {
		b.Dues--
	}
}

// NoteHashes keeps the names of a block that is stored, for events.
func (b *Book) NoteHashes(key Key, h blocks.Hashes) {
	if b.hashes != nil {
		b.hashes[key] = h
	}
}

// NoteStored writes down that the block of a key is in host memory.
func (b *Book) NoteStored(key Key, out *scheduler.Pass) {
	if h, ok := b.hashes[key]; ok {
		out.Events = append(out.Events, scheduler.KVEvent{
			Parent: h.Parent, HasParent: h.Follows, Stored: []scheduler.KVBlock{h.KVBlock}, Tier: scheduler.HostPinned,
		})
	}
}

// NoteGone writes down that the blocks of keys are in host memory no more.
func (b *Book) NoteGone(keys []Key, out *scheduler.Pass) {
	for _, key := range keys {
		if h, ok := b.hashes[key]; ok {
			out.Events = append(out.Events, scheduler.KVEvent{Removed: []uint64{h.Seq}, Tier: scheduler.HostPinned})
			delete(b.hashes, key)
		}
	}
}
