// Package windows determines how vLLM groups the layers of a model with sliding windows, and which tokens their
// windows have passed.
package windows

import "fmt"

// Groups are the groups of layers of a model in which some layers attend to recent tokens only. vLLM groups layers by
// the tokens that they attend to, with about as many layers in each group. Each group has one KV block for each block
// of tokens.
type Groups struct {
	Tokens  int  // number of tokens that a layer with a window attends to; 0: no layer has a window
	Chunked bool // windows are chunks: a token attends to its chunk of Tokens tokens; otherwise to the last Tokens tokens
	Groups  int  // number of groups of layers with windows, > 0 if Tokens is
	Full    int  // number of groups of layers that attend to all tokens
	// FullFirst puts the groups without windows first, as vLLM does if the first layer of the model has no window.
	// Without FullFirst, the groups with windows are first.
	FullFirst bool
}

// First returns the first group of layers with windows. The other groups with windows follow the first one.
func (w *Groups) First() int {
	if w.FullFirst {
		return w.Full
	}
	return 0
}

// Watched returns the group that sends events to routers. The watched group is the last group without windows, or the
// last group if all have windows.
func (w *Groups) Watched() int {
	if w.FullFirst && w.Full > 0 {
		return w.Full - 1
	}
	return w.Groups + w.Full - 1
}

// Given reports whether any layer has a window.
func (w *Groups) Given() bool { return w.Tokens > 0 }

// GroupLayers returns the number of groups of layers with windows, and of layers without. A group has as many layers
// as the rarer kind, or as the more frequent kind if that has fewer than 1.5 times as many.
func GroupLayers(windowed, full int) (groups, others int) {
	size := min(windowed, full)
	if most := max(windowed, full); 2*most < 3*size || size == 0 {
		size = most
	}
	return (windowed + size - 1) / size, (full + size - 1) / size
}

// Passed returns how many of the first tokens are before all windows after that many tokens are computed.
func (w *Groups) Passed(computed int) int {
	if w.Chunked {
		return computed / w.Tokens * w.Tokens
	}
	return max(0, computed-w.Tokens+1)
}

// Passing returns how many tokens must be computed before the windows have passed the first `tokens` tokens.
func (w *Groups) Passing(tokens int) int {
	if w.Chunked {
		return (tokens + w.Tokens - 1) / w.Tokens * w.Tokens
	}
	return tokens + w.Tokens - 1
}

// MostBlocks returns the maximum number of blocks of a request that a group with windows needs. inFlight is the
// number of its tokens that passes in flight compute.
func (w *Groups) MostBlocks(inFlight, blockTokens int) int {
	tokens, more := w.Tokens+inFlight, 0
	if !w.Chunked {
		tokens, more = tokens-1, 1
	}
	return (tokens+blockTokens-1)/blockTokens + more
}

// Check returns an error if w is invalid for blocks of blockTokens tokens.
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

// leastWindow is the shortest window in tokens: the token and the previous token.
const leastWindow = 2

// mostGroups is the maximum number of groups of layers. Keys of blocks contain the group and 2^28 blocks of a
// request.
const mostGroups = 16

// Layout numbers the groups of layers; blocks have 1 << Shift tokens.
type Layout struct {
	Windows  Groups
	All      int // number of groups
	From, To int // groups from From up to To have windows
	Shift    uint
}

// NewLayout returns the layout of w.
func NewLayout(w Groups, shift uint) Layout {
	return Layout{Windows: w, All: w.Groups + w.Full, From: w.First(), To: w.First() + w.Groups, Shift: shift}
}

// IsWindowed reports whether the layers of group g have windows.
func (l *Layout) IsWindowed(g int) bool { return l.From <= g && g < l.To }

// Skip returns n for groups with windows, which skip their first n blocks, and 0 for groups without windows.
func (l *Layout) Skip(g, n int) int {
	if l.IsWindowed(g) {
		return n
	}
	return 0
}

// FirstHeld returns the first of `hits` cached blocks that groups with windows need.
func (l *Layout) FirstHeld(hits int) int {
	return min(hits, l.Windows.Passed(hits<<l.Shift)>>l.Shift)
}
