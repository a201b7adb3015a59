package simplecpu

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
)

// Book has the connector's data of requests by slot, and of events.
type Book struct {
	Dues   int           // number of requests with full blocks that were not offered
	Fresh  []blocks.Slot // requests that the pass being planned admits for the first time
	Again  []blocks.Slot // requests that the pass being planned admits again
	Before uint64        // number of admissions before this pass
	users  []User
	due    []bool
	hashes map[Key]blocks.Hashes // hashes of blocks in host memory, if events are captured
}

// NewBook returns an empty book.
func NewBook(capture scheduler.Capture) (b Book) {
	if capture == scheduler.CaptureEvents {
		b.hashes = map[Key]blocks.Hashes{}
	}
	return b
}

// BeginPlan starts the plan of a pass; admitted is the number of admissions so far.
func (b *Book) BeginPlan(admitted uint64) {
	b.Fresh, b.Again, b.Before = b.Fresh[:0], b.Again[:0], admitted
}

// NoteAdmitted records that the pass being planned admits the request in a slot.
func (b *Book) NoteAdmitted(at blocks.Slot, again bool) {
	if again {
		b.Again = append(b.Again, at)
	} else {
		b.Fresh = append(b.Fresh, at)
	}
}

// BeginRequest registers the request in a slot.
func (b *Book) BeginRequest(at blocks.Slot) {
	for int(at) >= len(b.users) {
		b.users, b.due = append(b.users, User{}), append(b.due, false)
	}
	b.users[at].Reset()
}

// User returns the user in a slot.
func (b *Book) User(at blocks.Slot) *User { return &b.users[at] }

// IsDue reports whether the request in a slot has full blocks that were not offered.
func (b *Book) IsDue(at blocks.Slot) bool { return b.due[at] }

// SetDue records whether the request in a slot has full blocks that were not offered.
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

// NoteHashes records the hashes of a block that is being stored, for events.
func (b *Book) NoteHashes(key Key, h blocks.Hashes) {
	if b.hashes != nil {
		b.hashes[key] = h
	}
}

// NoteStored appends the event of a stored block to out.
func (b *Book) NoteStored(key Key, out *scheduler.Pass) {
	if h, ok := b.hashes[key]; ok {
		out.Events = append(out.Events, scheduler.KVEvent{
			Parent: h.Parent, HasParent: h.Follows, Stored: []scheduler.KVBlock{h.KVBlock}, Tier: scheduler.HostPinned,
		})
	}
}

// NoteGone appends the events of blocks that are no longer in host memory to out.
func (b *Book) NoteGone(keys []Key, out *scheduler.Pass) {
	for _, key := range keys {
		if h, ok := b.hashes[key]; ok {
			out.Events = append(out.Events, scheduler.KVEvent{Removed: []uint64{h.Seq}, Tier: scheduler.HostPinned})
			delete(b.hashes, key)
		}
	}
}
