package engines

import (
	"fmt"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// draftTime returns the time of a draft for all requests, in ms and as a share of a pass without drafts. text
// describes the source of both.
func draftTime(a *engineargs.Args) (ms, share float64, text string) {
	s := a.Speculative
	f, isSheet := a.PassTimes.Fit()
	switch {
	case s.TimeGiven:
		return s.Ms, s.Share, fmt.Sprintf("each takes %g ms and %g of a pass", s.Ms, s.Share)
	case s.Method == scheduler.ByLookup:
		return 0, 0, "drafts take no time"
	case s.Method == scheduler.ByHead && isSheet:
		share = 1 / float64(f.Model.Layers)
		return 0, share, fmt.Sprintf("each takes %.3f of a pass, one layer of %d", share, f.Model.Layers)
	case isSheet && s.Model != "":
		if drafter, err := hardware.FindModel(s.Model); err == nil {
			share = drafter.Active() / f.Model.Active()
			return 0, share, fmt.Sprintf("each takes %.3f of a pass, as %s has weights", share, drafter.Name)
		}
	}
	return 0, 0, "drafts take no time, since none is known: draft_ms or draft_share"
}

// describeSpeculation describes the speculative decoding of an engine.
func describeSpeculation(a *engineargs.Args) string {
	s := a.Speculative
	rate := fmt.Sprintf("each accepted at a rate of %g if those before it were", s.Low)
	switch {
	case s.Rates != nil:
		mean, all := 1.0, 1.0
		for _, r := range s.Rates {
			all *= r
			mean += all
		}
		rate = fmt.Sprintf("accepted for %.3g tokens a pass at most", mean)
	case s.High > s.Low:
		rate = fmt.Sprintf("each accepted at a rate of %g to %g, drawn for each request, if those before it were", s.Low, s.High)
	}
	_, _, text := draftTime(a)
	verified := "a verified draft costs what a prompt token does"
	if a.PassTimes.ByRequests() {
		verified = "verifying takes no time, which this model has by requests"
	}
	number := fmt.Sprintf("%d drafts a pass", s.Tokens)
	if d := &a.SGLang.Drafts; a.Engine == engineargs.SGLang && d.Tokens > s.Tokens+1 {
		number = fmt.Sprintf("%d drafts in a row of the %d a pass", s.Tokens, d.Tokens-1)
	}
	return fmt.Sprintf("%s, %s, %s; %s; %s; the drafter's memory is not counted", s.Name, number, rate, text, verified)
}

// withSeed returns the speculative decoding of an engine, with the seed of the run if it has none. withSeed returns
// nil without speculative decoding.
func withSeed(s *engineargs.Speculative, seed uint64) *vllm.Speculation {
	if s == nil {
		return nil
	}
	drafts := s.Speculation
	if !s.SeedGiven {
		drafts.Seed = seed
	}
	return &drafts
}

// draftsOf returns the speculative decoding of an SGLang engine, nil if it has none.
func draftsOf(a *engineargs.Args, seed uint64) *sglang.Speculation {
	s := withSeed(a.Speculative, seed)
	if s == nil {
		return nil
	}
	return &sglang.Speculation{Drafts: a.SGLang.Drafts.Drafts, Acceptance: s.Acceptance}
}
