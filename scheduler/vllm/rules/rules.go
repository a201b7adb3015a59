// Package rules names the choices between vLLM's own scheduler and the reference simulator, one by one.
package rules

// Rules chooses, rule by rule, between vLLM's own scheduler and the reference
// simulator (false, 0). What releases of vLLM follow are the rows of
// package releases; each is a value of Rules.
//
// Rules that are all as in the reference are followed by the package reference;
// any other choice is followed by this one, with each rule as set.
type Rules struct {
	// MixedStep runs prompt chunks and decodes in one forward pass of one
	// duration; otherwise prefill comes first, then decode, each with its own.
	MixedStep bool
	// BudgetGate admits requests only while tokens are left in the budget; otherwise the head of the line is tried with
	// none left, and is admitted if it needs none.
	BudgetGate bool
	// RecomputeLast computes at least one token of a prompt that is cached as a
	// whole; otherwise such a prompt costs nothing.
	RecomputeLast bool
	// AdmitIdle admits the head of the line into blocks that no request holds and lets it wait otherwise; otherwise running
	// requests are preempted for it.
	AdmitIdle bool
	// ReserveWhole admits a request only when all of its known tokens would fit;
	// otherwise when its first chunk does. Read with AdmitIdle only.
	ReserveWhole bool
	// WholeAllocation takes all blocks of a chunk or none, and the block of a token when it is fed back. Otherwise the
	// free blocks serve a part of the chunk, and the block of a token is taken with the pass that samples it.
	WholeAllocation bool
	// OneQueue evicts by time of release, cached or not; otherwise blocks that
	// were never cached go first.
	OneQueue bool
	// NullBlock keeps one block of the pool out of use.
	NullBlock bool
	// LastVictim preempts the last of the running requests; otherwise the one
	// that Config.Preemption names.
	LastVictim bool
	// PastSelf continues with the next of the running requests after one that lost its own
	// place; otherwise it is the last that gets tokens. If it is the last of the running, as with first come, first served, no
	// request follows.
	PastSelf bool
	// KeepNext gives the request after one that preempted its turn; otherwise, by priority,
	// as many requests after it get nothing in the pass as lost a place in front of it
	// without tokens in this pass.
	KeepNext bool
	// TwoInFlight plans a pass while the one before it runs; otherwise when that
	// has ended.
	TwoInFlight bool
	// LongPrefillTokens is the most a pass computes of one request; 0: no limit.
	LongPrefillTokens int
	// WholeAlone does not hold the only request, running or waiting, to
	// LongPrefillTokens.
	WholeAlone bool
	// Watermark is the share of the pool, from 0 to 1, that admissions leave free while any request runs.
	Watermark float64
	// EmptyPassMs is how long the engine sleeps after a pass that was planned with nothing
	// to compute, while requests are unfinished, in ms.
	EmptyPassMs int
	// EmptyPassIdle has it sleep too when it has nothing left to do.
	EmptyPassIdle bool
	// NameAtEnd makes a block that the last computed token of an answer fills one
	// that can be found when the request ends; otherwise it never is.
	NameAtEnd bool
	// WindowBound admits a request if groups with windows have room for the blocks that they hold of it at once;
	// otherwise if they have room for all its blocks.
	WindowBound bool
	// WindowLag keeps a block that tokens of a running pass attend to; otherwise it is
	// given up when they are planned.
	WindowLag bool
	// DraftRoom gives a request its room for drafts with its prompt; otherwise with its
	// first drafts.
	DraftRoom bool
	// NameAccepted names blocks that accepted drafts fill when the request is preempted or ends, also with one pass in
	// flight; otherwise only with TwoInFlight.
	NameAccepted bool
	// PadDrafts gives a request that is admitted with one token to compute drafts that are
	// none, so that it looks like one that decodes.
	PadDrafts bool
	// PadAlone does so too if no other request is in the pass and the rest was cached.
	PadAlone bool
	// DraftSlots takes a token of the budget of a pass for each request in it if a draft model computes, too.
	DraftSlots bool
	// DraftBudget leaves a token of the budget of a pass for each of MaxSeqs requests, present or not, if a draft model computes,
	// too.
	DraftBudget bool
	// SkipDrafts makes no drafts after a pass if none of its requests can use them; otherwise the drafter runs after every pass.
	SkipDrafts bool
	// HashAhead names a block by the token after it, too, where the drafter reads hidden states;
	// otherwise the last block that a request finds is computed again.
	HashAhead bool
	// OwnInterval holds Config.PrefillInterval for an engine alone; otherwise it has no effect.
	OwnInterval bool
	// FirstTokenFree makes a prompt's first token part of the pass that covers
	// it; otherwise it counts as a decode in that pass too.
	FirstTokenFree bool
}

// Reference reports whether every choice is the reference's.
func (r Rules) Reference() bool { return r == Rules{} }
