package generate

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
)

// plan is a tree of shared prefixes. A prompt starts with the tokens of a path in the tree. All nodes have the same
// number of tokens.
type plan struct {
	depth, branch, tokens int
	upTo                  []float64 // cumulative weights of the branches
	random                *rand.Rand
	path                  []uint64 // nodes of the current prompt
	ids                   map[place]uint64
}

// place is a block of the tokens of a node.
type place struct {
	node  uint64
	depth int32
	block int32
}

const maxBranch = 1 << 20

// newPlan parses the shared prefixes of prompts:
//
//	none
//	system:tokens=1000              all prompts start with the same tokens
//	groups:count=10,tokens=2000     each prompt has one of `count` prefixes
//	tree:depth=3,branch=4,tokens=500
//	                                the same first part, one of 4 second parts, …;
//	                                each part has this number of tokens
//
// groups and tree have the setting zipf. With 0 all choices have the same probability. With 1 the probability of the n-th
// choice is that of the first divided by n.
func newPlan(text string, random *rand.Rand) (*plan, error) {
	if text == "" || text == "none" {
		return &plan{}, nil
	}
	p := parseParams(text)
	t := &plan{depth: 1, branch: 1, random: random, ids: make(map[place]uint64)}
	skew := 0.0
	switch p.name {
	case "system":
	case "groups":
		t.branch = p.whole("count", maxBranch)
		skew = p.number("zipf", 0, span{0, mostZipf})
	case "tree":
		t.depth = p.whole("depth", 64)
		t.branch = p.whole("branch", maxBranch)
		skew = p.number("zipf", 0, span{0, mostZipf})
	default:
		return nil, excerpt.Errorf("prefix is %q, must be none, system, groups or tree", text)
	}
	t.tokens = p.whole("tokens", maxTokens)
	if err := p.end(); err != nil {
		return nil, err
	}
	if math.Pow(float64(t.branch), float64(t.depth)) > 1<<62 {
		return nil, excerpt.Errorf("%q: %d parts with %d choices each, must be fewer", text, t.depth, t.branch)
	}
	sum := 0.0
	for i := range t.branch {
		sum += math.Pow(float64(i+1), -skew)
		t.upTo = append(t.upTo, sum)
	}
	t.path = make([]uint64, t.depth)
	return t, nil
}

// draw selects a random path for the next prompt. In a tree with several levels, all paths have the same first node.
func (t *plan) draw() {
	node := uint64(0)
	for level := range t.path {
		branch := 0
		if t.branch > 1 && (level > 0 || t.depth == 1) {
			u := t.random.Float64() * t.upTo[t.branch-1]
			branch, _ = slices.BinarySearch(t.upTo, u)
			branch = min(branch, t.branch-1)
		}
		node = node*uint64(t.branch) + uint64(branch)
		t.path[level] = node
	}
}

// id returns the id of a block, if it is in the shared prefix.
func (t *plan) id(block, size int, next *uint64) (uint64, bool) {
	if t.depth == 0 {
		return 0, false
	}
	level := ((block+1)*size - 1) / t.tokens // level of the block's last token
	if level >= t.depth {
		return 0, false
	}
	k := place{t.path[level], int32(level), int32(block)}
	id, ok := t.ids[k]
	if !ok {
		id = *next
		*next++
		t.ids[k] = id
	}
	return id, true
}
