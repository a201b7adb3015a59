// Package windows is how vLLM groups the layers of a model with sliding windows, and which tokens such layers have passed.
package windows

import "fmt"

// Groups are the groups of KV blocks of a model with layers that do not attend to
// every token before one. vLLM groups layers by what they attend to, so that every group
// has about as many; for each block of tokens each group has one block.
type Groups struct {
	Tokens  int  // that a layer with a window attends to; 0: no layer has one
	Chunked bool // it attends to the tokens of its chunk of Tokens; otherwise to the last Tokens
	Groups  int  // of layers with a window, > 0 if Tokens are
	Full    int  // of layers that attend to everything
	// FullFirst puts the groups of layers that attend to everything first, as vLLM does
	// where the first layer of the model does; otherwise the groups with windows come first.
	FullFirst bool
}

// First returns the first group of layers with a window; the other such groups follow it.
func (w *Groups) First() int {
	if w.FullFirst {
		return w.Full
	}
	return 0
}

// Watched returns the group that sends events to routers: the last that attends to all tokens,
// or without one the last.
func (w *Groups) Watched() int {
	if w.FullFirst && w.Full > 0 {
		return w.Full - 1
	}
	return w.Groups + w.Full - 1
}

// Given reports whether any layers have a window.
func (w *Groups) Given() bool { return w.Tokens > 0 }

// GroupLayers returns in how many groups vLLM puts layers with windows and layers without. A group has as many layers as the
// rarer kind, or as the more frequent kind if that has hardly more.
func GroupLayers(windowed, full int) (groups, others int) {
	size := min(windowed, full)
	if most := max(windowed, full); 2*most < 3*size || size == 0 {
		size = most
	}
	return (windowed + size - 1) / size, (full + size - 1) / size
}

// Passed returns how many of the first tokens no layer with a window attends to any
// more when that many are computed.
func (w *Groups) Passed(computed int) int {
	if w.Chunked {
		return computed / w.Tokens * w.Tokens
	}
	return max(0, computed-w.Tokens+1)
}

// Passing returns how many tokens must be computed to pass the first ones, that many.
func (w *Groups) Passing(tokens int) int {
	if w.Chunked {
		return (tokens + w.Tokens - 1) / w.Tokens * w.Tokens
	}
	return tokens + w.Tokens - 1
}

// MostBlocks returns how many blocks of a request a group of layers with a window needs
// at most, where passes in flight compute that many tokens of it.
func (w *Groups) MostBlocks(inFlight, blockTokens int) int {
	tokens, more := w.Tokens+inFlight, 0
	if !w.Chunked {
		tokens, more = tokens-1, 1
	}
	return (tokens+blockTokens-1)/blockTokens + more
}

// Check returns what is wrong with w if blocks have blockTokens tokens.
func (w *Groups) Check(blockTokens int) error {
	switch {
	case *w == Groups{}:
		return nil
	case w.Tokens < leastWindow:
		return fmt.Errorf("a window of %d tokens, must be at least %d", w.Tokens, leastWindow)
	case w.Chunked && w.Tokens%blockTokens != 0:
		return fmt.Errorf("chunks of %d tokens, must be a multiple of the %d of a block", w.Tokens, blockTokens)
	case w.Groups < 1 || w.Full < 0 || w.Groups+w.Full > mostGroups:
		return fmt.Errorf("layers in %d groups with windows and %d without, must be at least 1 with and at most %d in all", w.Groups, w.Full, mostGroups)
	}
	return nil
}

// leastWindow is the shortest window, in tokens: the token itself and one before it.
const leastWindow = 2

// mostGroups is the most groups of layers: keys of blocks hold the group and 2^28
// blocks of a request.
const mostGroups = 16

// Layout is the groups of layers by number, with blocks of 1 << Shift tokens.
type Layout struct {
	Windows  Groups
	All      int // groups
	From, To int // the groups from one up to another have windows
	Shift    uint
}

// NewLayout returns the layout of w.
func NewLayout(w Groups, shift uint) Layout {
	return Layout{Windows: w, All: w.Groups + w.Full, From: w.First(), To: w.First() + w.Groups, Shift: shift}
}

// IsWindowed reports whether the layers of group g have windows.
func (l *Layout) IsWindowed(g int) bool { return l.From <= g && g < l.To }

// Skip returns n for groups with windows, which do without their first n blocks, and 0 for the groups without windows.
func (l *Layout) Skip(g, n int) int {
	if l.IsWindowed(g) {
		return n
	}
	return 0
}

// FirstHeld returns the first of a number of cached blocks that groups with windows need.
func (l *Layout) FirstHeld(hits int) int {
	return min(hits, l.Windows.Passed(hits<<l.Shift)>>l.Shift)
}
