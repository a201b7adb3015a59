package scheduler

// Acceptance is the rate at which a model accepts draft tokens in speculative decoding.
type Acceptance struct {
	// Rates is the probability, by position, that a draft is accepted if the drafts before it are accepted. If Rates
	// is nil, each request draws a rate between Low and High for all positions.
	Rates     []float64
	Low, High float64
	Seed      uint64 // seed of the draws
}

// Drafter is a method that proposes drafts, classified by its effect on a scheduler.
type Drafter uint8

const (
	ByLookup     Drafter = iota // ngram and similar methods: no separate KV cache
	ByDraftModel                // a model with separate KV blocks
	ByHead                      // eagle, mtp: reads the hidden states of the model
)

// DrawNumber returns a number from 0 to 1 that depends only on its arguments. DrawNumber uses the finalizer of
// SplitMix64.
func DrawNumber(seed, request, place uint64) float64 {
	x := seed*0x9e3779b97f4a7c15 + (request+1)*0xd6e8feb86659fd93 + place*0xa0761d6478bd642f
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// Accepted returns how many of the given number of drafts are accepted for a request that has sampled its first
// sampled tokens; request is its DrawKey.
func (a *Acceptance) Accepted(request uint64, sampled, drafts int) int {
	rate := a.Low
	if a.High > a.Low {
		rate += float64((a.High - a.Low) * DrawNumber(a.Seed, request, 0))
	}
	for i := range drafts {
		if a.Rates != nil {
			rate = a.Rates[i]
		}
		if !(DrawNumber(a.Seed, request, uint64(sampled+i)+1) < rate) {
			return i
		}
	}
	return drafts
}
