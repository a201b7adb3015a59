package sglang

import "errors"

// Rules chooses, rule by rule, between the reference simulator (false) and the
// real SGLang scheduler (true). The fields are the rows of "The
// choices" in docs/rules/sglang.md, in their order.
//
// They are choices of one core. Users get two sets of them: CompatRules and
// DefaultRules.
type Rules struct {
	// Pages counts the pool in whole pages; otherwise in single slots, with the
	// rest of each request's last page as a computed overhead.
	Pages bool
	// Evictable counts every unlocked token of the tree as evictable, and a
	// lookup refreshes the node it ends in; otherwise unlocked leaves alone
	// count, and a node left half-way stays as old as it was.
	Evictable bool
	// LockFirst looks a prompt up and locks what it finds before anything is
	// evicted, once for the whole batch; otherwise room for the raw chunk is
	// made first, and may take the very prefix that would have been found.
	LockFirst bool
	// PrefixCap leaves at least one token of a prompt to be computed, and lets
	// lpm compare waiting prompts token by token; otherwise a prompt can be
	// found whole, and lpm compares whole pages.
	PrefixCap bool
	// Discount asks and charges only for what the prefix does not cover.
	Discount bool
	// Dedupe frees a request's own copies of tokens the tree has by now;
	// otherwise they leave the pool for good.
	Dedupe bool
	// CommitPoints caches after prefill chunks and at completion only; otherwise
	// after cut chunks and in decode, page by page.
	CommitPoints bool
	// PartialSlot keeps a cut request aside and continues it before the queue is
	// read; otherwise it waits at the front of the queue.
	PartialSlot bool
	// CutAny cuts whatever exceeds the rest of the budget; otherwise only prompts
	// above the configured chunk size are cut.
	CutAny bool
	// Reserve asks for a page more than a request needs, and waives the
	// comparison for an idle engine.
	Reserve bool
	// Release returns only the pages beyond the locked path when a request is
	// retracted; otherwise slots that the tree owns may be returned too.
	Release bool
	// Victims retracts by fewest outputs, longest prompt, highest place, to the
	// back of the queue, and keeps the order of the others; otherwise by fewest
	// outputs, lowest place, to the front, and the last takes the empty place.
	Victims bool
	// Ratio estimates the new-token ratio after a retraction, lets it decay with
	// decoding and resets it when idle; otherwise it starts over after a
	// retraction and decays on every pass.
	Ratio bool
	// FirstReuse reports the prefix found at a request's first admission;
	// otherwise everything computed before a chunk counts as reuse.
	FirstReuse bool
	// CacheOff lets Config.PrefixCaching switch the cache off; otherwise it is
	// always on.
	CacheOff bool
	// PageEvents announces pages by the router's own hashes, under rank 0;
	// otherwise single tokens by private ones, under the worker's rank.
	PageEvents bool
	// Intake refuses what cannot fit even alone, clip or not; otherwise only
	// what the admission test itself never lets in.
	Intake bool
	// PartialYields drops a cut request as the last resort of a retraction.
	PartialYields bool
}

// CompatRules returns the reference simulator's.
func CompatRules() Rules { return Rules{} }

// DefaultRules returns the real SGLang scheduler's.
func DefaultRules() Rules {
	return Rules{
		Pages: true, Evictable: true, LockFirst: true, PrefixCap: true, Discount: true, Dedupe: true,
		CommitPoints: true, PartialSlot: true, CutAny: true, Reserve: true, Release: true, Victims: true,
		Ratio: true, FirstReuse: true, CacheOff: true, PageEvents: true, Intake: true, PartialYields: true,
	}
}

// check refuses choices that contradict each other.
func (r Rules) check() error {
	switch {
	case r.Discount && !r.LockFirst:
		return errors.New("rules: Discount without LockFirst: a prefix that is not held cannot be discounted")
	case r.PartialYields && !r.PartialSlot:
		return errors.New("rules: PartialYields without PartialSlot: there is no request kept aside to drop")
	}
	return nil
}
