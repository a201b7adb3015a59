package sglang

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
)

// Transcripts of SGLang's own rules. budget sets max_prefill_tokens, and seqs is ignored. A core line also supports
// these settings; N is an integer and X a number:
//
//   - overlap: a pass is planned while the previous pass runs
//   - chunk=N (32), clip=N (4096): chunked_prefill_size and clip_max_new_tokens, in tokens
//   - running=N, prompts=N (no limits): max_running_requests and prefill_max_requests
//   - conservativeness=X (1), mixed, nocache, eos (requests ignore the end of sequence)
//   - lpm, lof, hrrn, shortest: policy of the queue
//   - interval=N: decode-only passes between passes with prompts; least=N: minimum running requests for interval
//   - window=N (tokens), share=X (1): layers with a window, and the size of their pool relative to the other pool
//   - runs: decode-only passes run together, and planners get no data
//   - log=N (40): decode-only passes per publication of KV events
//   - priorities, with low, threshold=N, spare (no preemption) and leasturgent (retract the least urgent requests)
//   - evict and the name of a policy, with protected=N (hits), threshold=N and next=N (tokens)
//   - reserve=N (0): tokens that decode workers keep free per request
//   - bytes=N, gbps=X: KV cache bytes per token and bandwidth of transfers, also for host memory
//   - host=N: pages of host memory, with selective or back as the write policy
//   - ranks=N in lockstep, with inturn for round robin instead of the rank with the fewest requests
//   - drafts=N: draft steps, with topk=N (1), verified=N (drafts + 1), accepted=N (percent, 100) and method=N (a
//     scheduler.Drafter, 2)
func TestTranscripts(t *testing.T) {
	schedulertest.RunTranscripts(t, "testdata", func(e *schedulertest.Engine) (scheduler.Core, error) {
		c := config(e.BlockTokens, e.Blocks)
		c.Tree, c.Clock, c.Capture, c.Role = e.Tree, e.Clock, e.Capture, e.Role
		c.Planner, c.PrefixCaching, c.Overlap, c.IgnoreEOS = !e.Has("runs"), !e.Has("nocache"), e.Has("overlap"), e.Has("eos")
		c.MaxPrefillTokens, c.ChunkTokens = e.MaxBatchedTokens, e.Int("chunk", 32)
		c.ClipNewTokens, c.MaxRunning = e.Int("clip", 4096), e.Int("running", 0)
		c.MixedChunk = e.Has("mixed")
		c.Conservativeness = e.Float("conservativeness", 1)
		c.Transfer = scheduler.Transfer{GBPerSecond: e.Float("gbps", 0), BytesPerToken: e.Int("bytes", 0)}
		c.PrefillRequests, c.LogInterval = e.Int("prompts", 0), e.Int("log", 40)
		c.Window = e.Int("window", 0)
		c.WindowPages = WindowPages(c.Pages*c.PageTokens, c.PageTokens, e.Float("share", 1))
		if n := e.Int("drafts", 0); n > 0 {
			rate := float64(e.Int("accepted", 100)) / 100
			c.Speculation = &Speculation{
				Drafts{scheduler.Drafter(e.Int("method", 2)), n, e.Int("topk", 1), e.Int("verified", n+1)},
				scheduler.Acceptance{Low: rate, High: rate},
			}
		}
		c.DecodeInterval, c.IntervalSeats = e.Int("interval", 0), e.Int("least", 0)
		c.Priorities = Priorities{
			On: e.Has("priorities"), LowFirst: e.Has("low"), Preempt: e.Has("priorities") && !e.Has("spare"),
			Threshold: e.Int("threshold", 0), Retract: e.Has("leasturgent"),
		}
		if pages := e.Int("host", 0); pages > 0 {
			c.HiCache = HiCache{Pages: pages, BytesPerToken: e.Int("bytes", 0), ToHostGBPerSecond: e.Float("gbps", 0), ToGPUGBPerSecond: e.Float("gbps", 0), Layers: 4}
		}
		if least := e.Int("storage", 0); least > 0 {
			c.HiCache.Storage = Storage{
				On: true, Policy: PrefetchPolicy(e.Int("prefetch", 0)), Threshold: least, Timeout: e.Float("timeout", 0),
				ToHostGBPerSecond: e.Float("readgbps", 0),
			}
		}
		switch {
		case e.Has("selective"):
			c.HiCache.Policy = WriteThroughSelective
		case e.Has("back"):
			c.HiCache.Policy = WriteBack
		}
		c.ReservedDecode = e.Int("reserve", 0)
		for _, name := range listEvictions() {
			if e.Has("evict" + name) {
				c.Eviction = newEviction(name)
				c.Eviction.ProtectedHits, c.Eviction.Threshold, c.Eviction.NextPrompt = e.Int("protected", 2), e.Int("threshold", 0), e.Int("next", 0)
			}
		}
		switch {
		case e.Has("lpm"):
			c.Policy = LPM
		case e.Has("lof"):
			c.Policy = LOF
		case e.Has("hrrn"):
			c.Policy = HRRN
		case e.Has("shortest"):
			c.Policy = ShortestPrefill
		}
		if n := e.Int("ranks", 1); n > 1 {
			how := TotalRequests
			if e.Has("inturn") {
				how = RoundRobin
			}
			return NewRanks(c, n, how)
		}
		return New(c)
	})
}
