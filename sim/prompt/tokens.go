package prompt

// AppendTokens appends the tokens of p, tokens long, to dst: every token of a
// trace block is its hash id. A joined tree does not know those after the last
// full block: it must not be asked.
func (t *Tree) AppendTokens(p *Prompt, tokens int, dst []uint64) []uint64 {
	if p.Unique() {
		for i := range tokens {
			dst = append(dst, uint64(SyntheticToken(int(p.Seed-1), i)))
		}
		return dst
	}
	end := len(dst) + tokens
	for _, n := range p.Nodes {
		if t.straddle != nil {
			for _, r := range t.straddle.runs[t.content[n]] {
				dst = appendRepeated(dst, r.id, int(r.tokens))
			}
			continue
		}
		dst = appendRepeated(dst, t.contents.ids[t.content[n]], min(t.traceTokens, end-len(dst)))
	}
	return dst
}

func appendRepeated(dst []uint64, id uint64, count int) []uint64 {
	for range count {
		dst = append(dst, id)
	}
	return dst
}
