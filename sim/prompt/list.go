package prompt

// List is the prompts of a workload in little memory. Prompts with paths take a few bytes each, and unique prompts of
// one length take none.
type List struct {
	count int
	// alike is every prompt of the list without its Seed, if all other fields are unset.
	alike Prompt

	paths  []NodeID // all paths, concatenated
	ends   []int32  // end of the path of each prompt
	blocks []int32  // number of blocks of each prompt

	plain []Prompt // all prompts, if not nil
}

// Len returns the number of prompts.
func (l *List) Len() int { return l.count }

// First returns the first n prompts.
func (l *List) First(n int) *List {
	first := *l
	first.count = n
	return &first
}

// At returns prompt i.
func (l *List) At(i int) Prompt {
	switch {
	case l.plain != nil:
		return l.plain[i]
	case l.ends == nil:
		p := l.alike
		p.Seed = int32(i) + 1
		return p
	}
	from, to := int32(0), l.ends[i]
	if i > 0 {
		from = l.ends[i-1]
	}
	return Prompt{Nodes: l.paths[from:to:to], Blocks: l.blocks[i]}
}
