package prompt

// AppendTokens appends the given number of first tokens of p to dst: every token of a trace block is its hash id.
// AppendTokens does not support a joined tree, which does not know the tokens after the last full block.
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
