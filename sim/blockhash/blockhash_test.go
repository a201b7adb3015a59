package blockhash_test

import (
	"slices"
	"testing"

	"github.com/replay-llm/replay/sim/blockhash"
)

// span returns the tokens from from up to to.
func span(from, to uint32) []uint32 {
	var s []uint32
	for t := from; t < to; t++ {
		s = append(s, t)
	}
	return s
}

// repeat returns count copies of each token, in order.
func repeat(count int, tokens ...uint32) []uint32 {
	var s []uint32
	for _, t := range tokens {
		s = append(s, slices.Repeat([]uint32{t}, count)...)
	}
	return s
}

// Local and sequence hashes of whole requests (docs/rules/router.md "Hashes").
func TestRequest(t *testing.T) {
	for _, c := range []struct {
		name            string
		tokens          []uint32
		block           int
		o               blockhash.Options
		local, sequence []uint64 // sequence nil: not compared
	}{
		{"two blocks", span(0, 8), 4, blockhash.Options{},
			[]uint64{9143094415614847814, 12124091508212882195},
			[]uint64{9143094415614847814, 9510318385840434533}},
		{"three blocks", span(1, 13), 4, blockhash.Options{},
			[]uint64{14643705804678351452, 16777012769546811212, 483935686894639516},
			[]uint64{14643705804678351452, 4945711292740353085, 12583592247330656132}},
		{"blocks of 512", repeat(512, 0, 1), 512, blockhash.Options{},
			[]uint64{16456450638077811066, 10716031498429279048},
			[]uint64{16456450638077811066, 10107136320548696770}},
		{"blocks of 64", repeat(64, 1, 2, 3, 4), 64, blockhash.Options{},
			[]uint64{16951273711404654616, 2439962053643786207, 15232596819325015918, 15517538317340902020},
			[]uint64{16951273711404654616, 11876878950716120354, 6456631075376710174, 18001302715863467214}},
		{"one block of sevens", repeat(64, 7), 64, blockhash.Options{},
			[]uint64{17903371052352623343}, []uint64{17903371052352623343}},
		{"the largest token", []uint32{4294967295, 0, 1, 2}, 4, blockhash.Options{},
			[]uint64{6304548326766447106}, []uint64{6304548326766447106}},
		{"an adapter", span(0, 8), 4, blockhash.Options{LoRA: "adapter-a"},
			[]uint64{6665157333201000639, 11721812545976571723},
			[]uint64{6665157333201000639, 13351519314849170528}},
		{"an adapter without a name", span(0, 8), 4, blockhash.Options{LoRA: ""},
			[]uint64{9143094415614847814, 12124091508212882195},
			[]uint64{9143094415614847814, 9510318385840434533}},
		{"objects on the first block", span(0, 8), 4, blockhash.Options{Multimodal: [][]uint64{{42, 7}}},
			[]uint64{4581426371996505827, 12124091508212882195},
			[]uint64{4581426371996505827, 12272744643658960812}},
		{"an object", span(0, 4), 4, blockhash.Options{Multimodal: [][]uint64{{42}}},
			[]uint64{18280081842874931122}, nil},
		{"an empty list of objects", span(0, 4), 4, blockhash.Options{Multimodal: [][]uint64{{}}},
			[]uint64{9143094415614847814}, nil},
		{"windows of one more, one block", span(0, 8), 4, blockhash.Options{Eagle: true},
			[]uint64{14562210786876287112}, nil},
		{"windows of one more, two blocks", span(0, 9), 4, blockhash.Options{Eagle: true},
			[]uint64{14562210786876287112, 15916330181359808192}, nil},
		{"a tail", span(0, 11), 4, blockhash.Options{},
			[]uint64{9143094415614847814, 12124091508212882195},
			[]uint64{9143094415614847814, 9510318385840434533}},
		{"blocks of 0", span(0, 8), 0, blockhash.Options{}, nil, []uint64{}},
		{"too short", span(0, 3), 4, blockhash.Options{}, nil, []uint64{}},
		{"equal blocks", repeat(4, 1), 2, blockhash.Options{},
			[]uint64{5115472643011882342, 5115472643011882342},
			[]uint64{5115472643011882342, 5508890557085166408}},
		{"equal blocks and another", []uint32{1, 1, 1, 1, 2, 2}, 2, blockhash.Options{},
			[]uint64{5115472643011882342, 5115472643011882342, 9443947823198412653},
			[]uint64{5115472643011882342, 5508890557085166408, 16878553316591260824}},
	} {
		t.Run(c.name, func(t *testing.T) {
			local := blockhash.Request(c.tokens, c.block, c.o)
			if !slices.Equal(local, c.local) {
				t.Errorf("local hashes %v, want %v", local, c.local)
			}
			if got := blockhash.Sequence(local); c.sequence != nil && !slices.Equal(got, c.sequence) {
				t.Errorf("sequence hashes %v, want %v", got, c.sequence)
			}
		})
	}
}

func TestHashes(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"bytes", blockhash.Bytes([]byte("test data")), 13226331709069118873},
		{"tokens", blockhash.Tokens(span(0, 4)), 9143094415614847814},
		{"64 times 0", blockhash.Tokens(repeat(64, 0)), 15480293642169978529},
		{"64 times 1", blockhash.Tokens(repeat(64, 1)), 16951273711404654616},
		{"64 times 2", blockhash.Tokens(repeat(64, 2)), 2439962053643786207},
		{"4 times 1", blockhash.Tokens(repeat(4, 1)), 17197628134376687251},
		{"chain", blockhash.Chain(16951273711404654616, 2439962053643786207), 11876878950716120354},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
}

// Hashing leaves the caller's lists of objects unchanged.
func TestRequestKeepsObjects(t *testing.T) {
	objects := [][]uint64{{42, 7}}
	blockhash.Request(span(0, 4), 4, blockhash.Options{Multimodal: objects})
	if !slices.Equal(objects[0], []uint64{42, 7}) {
		t.Errorf("objects are %v now", objects[0])
	}
}
