package generate

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
)

// plan is what prompts begin with: the path down a tree. Every node of the tree stands for a fixed number of tokens.
type plan struct {
	depth, branch, tokens int
	upTo                  []float64 // cumulated share of each branch
	random                *rand.Rand
	path                  []uint64 // numbers of the nodes of the prompt at hand
	ids                   map[place]uint64
}

// place is a block of what a node's prompts have in common.
type place struct {
	node  uint64
	depth int32
	block int32
}

const maxBranch = 1 << 20

// newPlan reads what prompts share:
//
//	none
//	system:tokens=1000              all begin with the same tokens
//	groups:count=10,tokens=2000     one of `count` beginnings each
//	tree:depth=3,branch=4,tokens=500
//	                                a beginning, one of four next parts, …; tokens of each
//
// groups and tree take zipf: with 0 all are as likely, with 1 the second half
// as likely as the first, the third a third as likely, …
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

// draw chooses the path of the next prompt. The first part of a tree is the same for all prompts.
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

// id is the id of a block in a shared prefix.
func (t *plan) id(block, size int, next *uint64) (uint64, bool) {
	if t.depth == 0 {
		return 0, false
	}
	level := ((block+1)*size - 1) / t.tokens // that of the block's last token
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
