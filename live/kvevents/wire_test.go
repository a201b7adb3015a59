package kvevents

import (
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/replay-llm/replay/scheduler"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Published test vectors of the publisher.
const (
	arrayVector = "93cb3ff80000000000009198ab426c6f636b53746f726564910bc0940102030404c0c0c000"
	mapVector   = "93cb3ff80000000000009185a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391ffb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a650400"
	clearVector = "93cb3ff80000000000009181a474797065b0416c6c426c6f636b73436c656172656400"
)

func TestVectors(t *testing.T) {
	want := scheduler.KVBlock{Seq: 11, Tokens: 14643705804678351452}
	for name, c := range map[string]struct {
		payload string
		block   scheduler.KVBlock
	}{
		"array": {arrayVector, want},
		"map":   {mapVector, scheduler.KVBlock{Seq: math.MaxUint64, Tokens: want.Tokens}},
	} {
		b, err := Decode(unhex(t, c.payload))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b.Time != 1.5 || !b.HasRank || b.Rank != 0 {
			t.Errorf("%s: time %v, rank %d %v", name, b.Time, b.Rank, b.HasRank)
		}
		n := normaliser{blockTokens: 4}
		changes := n.appendChanges(&b, nil)
		wantChange := []Change{{Event: scheduler.KVEvent{Stored: []scheduler.KVBlock{c.block}}}}
		if !reflect.DeepEqual(changes, wantChange) {
			t.Errorf("%s: %+v, want %+v", name, changes, wantChange)
		}
	}
	b := Batch{Time: 1.5, HasRank: true, Events: []Event{{Kind: Cleared}}}
	if got := hex.EncodeToString(b.Append(nil)); got != clearVector {
		t.Errorf("clear is %s", got)
	}
	b.Events = []Event{{Kind: Stored, Blocks: []uint64{math.MaxUint64}, Tokens: []uint32{1, 2, 3, 4}, BlockTokens: 4}}
	if got := hex.EncodeToString(b.Append(nil)); got != mapVector {
		t.Errorf("map is %s", got)
	}
}

// A batch is decoded to the same batch after encoding.
func TestRoundTrip(t *testing.T) {
	b := Batch{Time: 1234.5, Rank: -3, HasRank: true, Events: []Event{
		{Kind: Stored, Blocks: []uint64{1, 1 << 63}, Parent: 1<<63 + 5, HasParent: true, TokensHashes: []uint64{0, math.MaxUint64},
			BlockTokens: 64, Medium: "DISK", LoRA: "adapter-a",
			Objects: [][]Object{nil, {{Hash: 1<<63 + 1, Ranges: [][2]int{{3, 9}}}}}},
		{Kind: Removed, Blocks: []uint64{7, 200, 70000, 1 << 40}, Medium: "CPU_PINNED"},
		{Kind: Cleared},
		{Kind: Ignored},
		{Kind: Ignored, Blocks: []uint64{5, 1 << 63}, Medium: "CPU_PINNED"},
	}}
	for range 2 {
		got, err := Decode(b.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, b) {
			t.Errorf("decoded\n%+v, want\n%+v", got, b)
		}
		b.Rank, b.HasRank = 0, false
	}
}

// stored returns a BlockStored array with further elements from index 5.
func stored(more ...any) []any {
	return append([]any{"BlockStored", []any{11}, nil, []any{1, 2, 3, 4}, 4}, more...)
}

func batchOf(t testing.TB, events ...any) []byte {
	t.Helper()
	b, err := msgp.AppendIntf(nil, []any{1.5, events, 0})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAccepted(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	object := []Object{{Hash: 0x0123456789abcdef}}
	base := Event{Kind: Stored, Blocks: []uint64{11}, Tokens: []uint32{1, 2, 3, 4}, BlockTokens: 4}
	with := func(f func(*Event)) Event { e := base; f(&e); return e }
	for name, c := range map[string]struct {
		event any
		want  Event
	}{
		"no trailing elements": {stored(), base},
		"a surplus":            {stored(nil, nil, nil, nil, nil, nil, nil, nil, 1, "x", nil), base},
		"a legacy adapter":     {stored(3, "GPU"), with(func(e *Event) { e.Medium = "GPU" })},
		"lora":                 {stored(nil, nil, "a"), with(func(e *Event) { e.LoRA = "a" })},
		"extra keys": {stored(nil, nil, nil, []any{[]any{"x", 7, hash, []any{hash, 3}, []any{hash, "y"}, []any{hash}}}),
			with(func(e *Event) { e.Objects = [][]Object{{object[0], object[0]}} })},
		"extra keys without objects": {stored(nil, nil, nil, []any{nil, []any{"short"}}), base},
		"group, kind, window, in any order": {stored(nil, nil, nil, nil, "mla_attention", 2, nil, 128),
			with(func(e *Event) {
				e.CacheKind, e.Group, e.HasGroup, e.Window, e.HasWindow = "mla_attention", 2, true, 128, true
			})},
		"objects by type": {stored(nil, nil, nil, []any{[]any{hash}}, []any{nil, map[string]any{"mm_objects": []any{map[string]any{"mm_hash": uint64(9), "offsets": []any{[]any{1, 2}}}}}}),
			with(func(e *Event) {
				e.Objects = [][]Object{nil, {{Hash: 9, Ranges: [][2]int{{1, 2}}}}}
			})},
		"pairs": {[]any{"BlockStored", []any{11}, nil, []any{[]any{1, 2}, []any{2, 3}, []any{3, 4}, []any{4, 5}}, 4},
			with(func(e *Event) { e.Tokens, e.Eagle = []uint32{1, 2, 3, 4, 5}, true })},
		"type last, unknown keys": {map[string]any{"zz": map[string]any{"a": []any{1}}, "block_hashes": []any{-1}, "type": "BlockRemoved", "medium": nil},
			Event{Kind: Removed, Blocks: []uint64{math.MaxUint64}}},
		"removed with its group": {[]any{"BlockRemoved", []any{1}, "CPU_TIER1", 1, "sliding_window"},
			Event{Kind: Removed, Blocks: []uint64{1}, Medium: "CPU_TIER1", Group: 1, HasGroup: true, CacheKind: "sliding_window"}},
		"both kinds of hashes": {map[string]any{"type": "BlockStored", "block_hashes": []any{11}, "token_ids": []any{1, 2, 3, 4}, "tokens_hashes": []any{5}, "block_size": 4},
			with(func(e *Event) { e.TokensHashes = []uint64{5} })},
		"ignored": {[]any{"Ignored", 1, 2}, Event{Kind: Ignored}},
	} {
		b, err := Decode(batchOf(t, c.event))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(b.Events) != 1 || !reflect.DeepEqual(b.Events[0], c.want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, b.Events, c.want)
		}
	}
}

func TestRejected(t *testing.T) {
	good := stored()
	for name, c := range map[string]struct {
		batch any
		want  string
	}{
		"two elements":             {[]any{1.5, []any{good}}, "batch of 2 elements, must be 3"},
		"four elements":            {[]any{1.5, []any{good}, 0, 0}, "batch of 4 elements, must be 3"},
		"no array":                 {"x", "must be an array"},
		"time":                     {[]any{"x", []any{good}, 0}, "time of the batch"},
		"rank":                     {[]any{1.5, []any{good}, 1 << 40}, "rank of the batch: integer is 1099511627776"},
		"an unknown type":          {[]any{1.5, []any{good, []any{"BlockMoved"}}, 0}, `event 1: type is "BlockMoved"`},
		"an event without a type":  {[]any{1.5, []any{[]any{}}, 0}, "event without a type"},
		"a map without a type":     {[]any{1.5, []any{map[string]any{"a": 1}}, 0}, "event without a type"},
		"a hash of few bytes":      {[]any{1.5, []any{[]any{"BlockRemoved", []any{[]byte("1234567")}}}, 0}, "hash of 7 bytes, must be 8 to 64"},
		"missing hashes":           {[]any{1.5, []any{[]any{"BlockRemoved"}}, 0}, "BlockRemoved without block_hashes"},
		"missing size":             {[]any{1.5, []any{good[:4]}, 0}, "BlockStored of 4 elements, must be at least 5"},
		"missing tokens":           {[]any{1.5, []any{map[string]any{"type": "BlockStored", "block_hashes": []any{}, "block_size": 4}}, 0}, "without tokens_hashes or token_ids"},
		"too few tokens hashes":    {[]any{1.5, []any{map[string]any{"type": "BlockStored", "block_hashes": []any{1, 2}, "tokens_hashes": []any{1}, "block_size": 4}}, 0}, "1 tokens_hashes, expected one for each of 2 blocks"},
		"a token that is negative": {[]any{1.5, []any{[]any{"BlockStored", []any{1}, nil, []any{-1}, 1}}, 0}, "integer is -1, must be 0 to 4294967295"},
	} {
		payload, err := msgp.AppendIntf(nil, c.batch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(payload); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	deep := append(unhex(t, "93cb3ff80000000000009192a749676e6f726564"), make([]byte, 1000)...)
	for i := 20; i < len(deep); i++ {
		deep[i] = 0x91
	}
	if _, err := Decode(deep); err == nil || !strings.Contains(err.Error(), "nested more than 16 deep") {
		t.Errorf("deep nesting: %v", err)
	}
	if _, err := Decode(unhex(t, "93cb3ff8000000000000ddffffffff")); err == nil || !strings.Contains(err.Error(), "elements in 0 bytes") {
		t.Errorf("a long array: %v", err)
	}
	if _, err := Decode(append(unhex(t, clearVector), 0)); err == nil {
		t.Error("bytes after the batch were accepted")
	}
}

// Each case is a list of events and the changes that they are converted to.
func TestNormalise(t *testing.T) {
	block := scheduler.KVBlock{Seq: 11, Tokens: 14643705804678351452}
	kept := []Change{{Event: scheduler.KVEvent{Stored: []scheduler.KVBlock{block}}}}
	empty := func(n int) []Change { return make([]Change, n) }
	grouped := func(kind any, group any) []any { return stored(nil, nil, nil, nil, group, kind) }
	for name, c := range map[string]struct {
		events []any
		want   []Change
	}{
		"ignored":               {[]any{[]any{"Ignored"}}, nil},
		"full attention":        {[]any{grouped("full_attention", 3)}, kept},
		"sliding window":        {[]any{grouped("sliding_window", 0)}, nil},
		"an unknown kind":       {[]any{grouped("other", nil)}, nil},
		"group 0, not learned":  {[]any{grouped(nil, 0)}, kept},
		"group 1, not learned":  {[]any{grouped(nil, 1)}, nil},
		"group 1, learned":      {[]any{grouped("sliding_window", 0), grouped("mla_attention", 1), grouped(nil, 0), grouped(nil, 1)}, append(kept, kept...)},
		"removal of a window":   {[]any{grouped("sliding_window", 1), []any{"BlockRemoved", []any{1}, nil, 1}}, nil},
		"removals do not teach": {[]any{[]any{"BlockRemoved", []any{1}, nil, 1, "full_attention"}, grouped(nil, 1)}, []Change{{Event: scheduler.KVEvent{Removed: []uint64{1}}}}},
		"cleared":               {[]any{[]any{"AllBlocksCleared"}}, []Change{{Clear: true}}},
		"a block twice":         {[]any{[]any{"BlockStored", []any{1, 1}, nil, []any{1, 2, 3, 4, 5, 6, 7, 8}, 4}}, empty(1)},
		"its own parent":        {[]any{[]any{"BlockStored", []any{1}, 1, []any{1, 2, 3, 4}, 4}}, empty(1)},
	} {
		b, err := Decode(batchOf(t, c.events...))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		n := normaliser{blockTokens: 4}
		if got := n.appendChanges(&b, nil); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
	}
	for name, e := range map[string]any{
		"another block size": []any{"BlockStored", []any{1}, nil, []any{1, 2, 3, 4, 5, 6, 7, 8}, 8},
		"too few tokens":     []any{"BlockStored", []any{1}, nil, []any{1, 2, 3}, 4},
	} {
		b, err := Decode(batchOf(t, e))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		n := normaliser{blockTokens: 4, rank: 2}
		if got := n.appendChanges(&b, nil); len(got) != 1 || len(got[0].Event.Stored) != 0 {
			t.Errorf("%s: %+v, want no block", name, got)
		}
	}
}

// The publisher's hash of a block's tokens equals the router's: for plain tokens, with an adapter, with multimodal
// objects, and for Eagle blocks with one more token.
func TestTokensHash(t *testing.T) {
	tokens := []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8}
	mm := func(h ...uint64) [][]Object {
		var list []Object
		for _, x := range h {
			list = append(list, Object{Hash: x})
		}
		return [][]Object{list}
	}
	for name, c := range map[string]struct {
		e    Event
		want []uint64
	}{
		"plain":   {Event{Tokens: tokens[:8]}, []uint64{9143094415614847814, 12124091508212882195}},
		"adapter": {Event{Tokens: tokens[:8], LoRA: "adapter-a"}, []uint64{6665157333201000639, 11721812545976571723}},
		"objects": {Event{Tokens: tokens[:8], Objects: mm(42, 7)}, []uint64{4581426371996505827, 12124091508212882195}},
		"object":  {Event{Tokens: tokens[:4], Objects: mm(42)}, []uint64{18280081842874931122}},
		"further": {Event{Tokens: tokens, Eagle: true}, []uint64{14562210786876287112, 15916330181359808192}},
	} {
		c.e.BlockTokens = 4
		for i, want := range append(c.want, 0) {
			got, ok := c.e.tokensHash(i)
			if ok != (i < len(c.want)) || got != want {
				t.Errorf("%s: block %d is %d %v, want %d", name, i, got, ok, want)
			}
		}
	}
}

func TestTiers(t *testing.T) {
	for m, want := range map[string]scheduler.Tier{
		"": scheduler.Device, "GPU": scheduler.Device, "DEVICE": scheduler.Device, "gpu": scheduler.Device,
		"CPU_PINNED": scheduler.HostPinned, "CPU_TIER1": scheduler.HostPinned,
		"CPU_TIER2": tierDisk, "DISK": tierDisk, "NVME": tierDisk,
		"EXTERNAL": tierExternal, "NETWORK": tierExternal, "REMOTE": tierExternal, "SHARED": tierExternal,
	} {
		e := Event{Medium: m}
		if got := e.tierOf(); got != want {
			t.Errorf("%q is tier %d, want %d", m, got, want)
		}
		back := Event{Medium: mediumName(want)}
		if back.tierOf() != want {
			t.Errorf("tier %d is told as %q", want, mediumName(want))
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, v := range []string{arrayVector, mapVector, clearVector} {
		f.Add(unhex(f, v))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		b, err := Decode(payload)
		if err != nil {
			return
		}
		n := normaliser{blockTokens: 4}
		n.appendChanges(&b, nil)
		for i := range b.Events {
			e := &b.Events[i]
			// Fields that only other publishers send are not appended.
			e.Group, e.HasGroup, e.Window, e.HasWindow, e.CacheKind = 0, false, 0, false, ""
			if e.Kind > Removed {
				*e = Event{Kind: e.Kind}
			} else if e.Kind == Removed {
				*e = Event{Kind: Removed, Blocks: e.Blocks, Medium: e.Medium}
			} else if len(e.TokensHashes) != len(e.Blocks) {
				e.TokensHashes = make([]uint64, len(e.Blocks))
			}
			e.Tokens, e.Eagle = nil, false
		}
		again, err := Decode(b.Append(nil))
		if err != nil {
			t.Fatalf("what was decoded and appended again: %v", err)
		}
		if b.Time == again.Time && !reflect.DeepEqual(normal(again), normal(b)) {
			t.Errorf("decoded %+v, want %+v", again, b)
		}
	})
}

// normal formats a batch so that nil and empty lists are equal.
func normal(b Batch) []string {
	var out []string
	for _, e := range b.Events {
		out = append(out, fmt.Sprintf("%v %v %v %v %v %v %q %q %v", e.Kind, e.Blocks, e.Parent, e.HasParent, e.TokensHashes, e.BlockTokens, e.Medium, e.LoRA, e.Objects))
	}
	return out
}

// A move of blocks to another memory is an event that readers may ignore, because the blocks stay cached for a
// router.
func TestMovedBlocks(t *testing.T) {
	for tier, medium := range map[scheduler.Tier]string{scheduler.HostPinned: "CPU_PINNED", scheduler.Device: "GPU"} {
		e := new(Tee).newEvent(&scheduler.KVEvent{Moved: []uint64{5}, Tier: tier})
		b, err := Decode((&Batch{Events: []Event{e}}).Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := &b.Events[0]; got.Type() != "BlockUpdated" || got.Kind != Ignored || got.Medium != medium || !slices.Equal(got.Blocks, []uint64{5}) {
			t.Errorf("decoded %+v, want block 5 in %s", got, medium)
		}
		if changes := new(normaliser).appendChanges(&b, nil); len(changes) > 0 {
			t.Errorf("a router learns %+v, want nothing", changes)
		}
	}
	b, err := Decode(batchOf(t, map[string]any{"type": "Ignored", "medium": 7}))
	if err != nil || b.Events[0].Type() != "Ignored" {
		t.Errorf("%+v, %v: want an event that says nothing", b.Events, err)
	}
}
