// Package rules names the differences between vLLM's scheduler and the reference simulator, one by one.
package rules

// Rules selects, rule by rule, the behavior of vLLM's scheduler or of the reference simulator (false, 0). Package
// releases has a value of Rules for each range of vLLM releases.
//
// Package reference implements the zero value. All other values are implemented by package vllm, including rules that
// are not set.
type Rules struct {
	// MixedStep runs prompt chunks and decodes in one forward pass. Without MixedStep, prefill runs first and decode
	// second, each with a separate duration.
	MixedStep bool
	// BudgetGate admits requests only while the budget has tokens left. Without BudgetGate, the first waiting request
	// is tried with an empty budget, too, and is admitted if it needs no tokens.
	BudgetGate bool
	// RecomputeLast computes at least one token of a fully cached prompt. Without RecomputeLast, a fully cached
	// prompt needs no computation.
	RecomputeLast bool
	// AdmitIdle admits the first waiting request only if enough blocks are free. Without AdmitIdle, running requests
	// are preempted for the first waiting request.
	AdmitIdle bool
	// ReserveWhole admits a request only if all of its known tokens fit. Without ReserveWhole, a request is admitted
	// if its first chunk fits. ReserveWhole is used with AdmitIdle only.
	ReserveWhole bool
	// WholeAllocation allocates all blocks of a chunk or none, and the block of an output token in the next pass,
	// where the token is an input. Without WholeAllocation, free blocks are used for a part of the chunk, and the
	// block of a token is allocated in the pass that samples it.
	WholeAllocation bool
	// OneQueue evicts blocks by time of release, cached or not. Without OneQueue, blocks that were never cached are
	// allocated first.
	OneQueue bool
	// NullBlock reserves one block of the pool, which requests cannot use.
	NullBlock bool
	// LastVictim preempts the last running request. Without LastVictim, Config.Preemption selects the request to
	// preempt.
	LastVictim bool
	// PastSelf plans the next running request after a request was preempted for lack of blocks for its next tokens.
	// Without PastSelf, no further running request gets tokens in the pass after a request preempted itself. With
	// first come, first served, the last running request is always the one preempted.
	PastSelf bool
	// KeepNext plans the request after a request that preempted another request. Without KeepNext, the priority order
	// skips one request in this pass for each preempted request in front that had no tokens in the pass.
	KeepNext bool
	// TwoInFlight plans a pass while the previous pass runs. Without TwoInFlight, passes are planned after the
	// previous pass has ended.
	TwoInFlight bool
	// LongPrefillTokens is the maximum number of tokens that a pass computes of one request; 0: no limit.
	LongPrefillTokens int
	// WholeAlone exempts a request from LongPrefillTokens if it is the only request, running or waiting.
	WholeAlone bool
	// Watermark is the share of the pool, from 0 to 1, that admission keeps free while any request runs.
	Watermark float64
	// EmptyPassMs is the time in ms for which the engine sleeps after an empty plan while requests are unfinished.
	EmptyPassMs int
	// EmptyPassIdle makes the engine sleep after an empty plan even if no requests are left.
	EmptyPassIdle bool
	// NameAtEnd names the block that the last computed token of an answer completes, when the request ends, so that
	// lookups can find it. Without NameAtEnd, the last block of an answer is never named.
	NameAtEnd bool
	// WindowBound admits a request if groups with windows have room for the blocks that they need of it at once.
	// Without WindowBound, groups with windows must have room for all blocks of the request.
	WindowBound bool
	// WindowLag keeps blocks that tokens of a running pass attend to. Without WindowLag, blocks are released when the
	// tokens are planned.
	WindowLag bool
	// DraftRoom reserves room for the drafts of a request together with its prompt. Without DraftRoom, room for
	// drafts is reserved with the first drafts.
	DraftRoom bool
	// NameAccepted names the blocks that accepted drafts complete when a request is preempted or ends, even with one
	// pass in flight. Without NameAccepted, blocks of accepted drafts are named only with TwoInFlight.
	NameAccepted bool
	// PadDrafts adds empty drafts to a request that is admitted with one token to compute, so that it looks like a
	// decoding request.
	PadDrafts bool
	// PadAlone makes PadDrafts apply to a request without other requests in the pass, too, if all its other tokens
	// were cached.
	PadAlone bool
	// DraftSlots reserves one token of the budget for each request in the pass if drafts are computed by a draft
	// model.
	DraftSlots bool
	// DraftBudget reserves one token of the budget for each of MaxSeqs requests, present or not, if drafts are
	// computed by a draft model.
	DraftBudget bool
	// SkipDrafts skips the drafter after a pass if none of its requests can use drafts. Without SkipDrafts, the
	// drafter runs after every pass.
	SkipDrafts bool
	// HashAhead makes the name of a block depend on the next token, too, if the drafter reads hidden states. Without
	// HashAhead, the last block that a request finds is computed again.
	HashAhead bool
	// OwnInterval applies Config.PrefillInterval to engines without data-parallel ranks. Without OwnInterval,
	// Config.PrefillInterval has no effect on such engines.
	OwnInterval bool
	// FirstTokenFree makes the first token of a prompt part of the pass that completes the prompt. Without
	// FirstTokenFree, the first token counts as a decode in that pass, too.
	FirstTokenFree bool
}

// Reference reports whether all rules are the reference's.
func (r Rules) Reference() bool { return r == Rules{} }
