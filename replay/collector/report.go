package collector

import "time"

// Report is the results of a replay. Times are in ms of the logical clock unless their names have wall.
type Report struct {
	Requests        int // number of arrived requests
	Completed       int // requests with an admission and a token: all later fields are about these
	InputTokens     int
	OutputTokens    int // requested tokens; gained tokens if the replay ended early
	ProcessedTokens int // sum of input and output tokens

	DurationMS float64 // instant of the last token
	WallMS     float64 // real time of the simulation

	RequestsPerS           float64
	InputTokensPerS        float64
	OutputTokensPerS       float64
	TotalTokensPerS        float64
	ProcessedTokensPerS    float64 // per second of real time
	ProcessedOutputPerS    float64 // per second of real time
	PrefixCacheReusedRatio float64 // share of the input tokens found in a cache

	// Readmissions is the number of admissions after a preemption, if they are counted separately.
	// ReadmittedReusedRatio is the cached share of the prompt tokens of these admissions.
	Readmissions          int
	ReadmittedReusedRatio float64

	// AcceptedTokensPerPass is, with speculative decoding, the mean number of tokens that a request gains in a pass
	// that verifies its drafts. AcceptedTokensPerPass includes the token of the model itself. AcceptanceRate is the
	// share of accepted draft tokens.
	AcceptedTokensPerPass float64
	AcceptanceRate        float64

	// ClippedRequests is the number of requests with answers that engines shortened to the size of their pools.
	// ClippedTokens is the number of tokens cut off.
	ClippedRequests, ClippedTokens int
	// CappedRequests is the number of requests with answers that end at the maximum sequence length of their engines.
	// CappedTokens is the number of tokens cut off.
	CappedRequests, CappedTokens int

	TTFT           Distribution // time to first token
	TTST           Distribution // first to second token
	TPOT           Distribution // mean time per token after the first
	ITL            Distribution // time between two tokens, of all requests together
	E2E            Distribution // arrival to last token
	UserThroughput Distribution // 1000/ITL where ITL > 0, tokens per second

	further []Field // in the order in which they were added
}

// QuantileError is the key of the maximum relative error of quantiles. QuantileError is missing if quantiles are
// exact.
const QuantileError = "quantile_error"

// Report derives the report of a simulation that took wall of real time.
func (c *Collector) Report(wall time.Duration) *Report {
	c.FoldAll()
	r := &Report{WallMS: float64(wall) / 1e6}
	pooled := make(chan struct{})
	go func() { // about half of the work, independent of the other half
		r.ITL, r.UserThroughput = c.describeGaps()
		close(pooled)
	}()
	c.countTotals(r)
	c.perRequest(r)
	<-pooled
	if c.fold != nil && c.fold.Quantiles == Sketched {
		r.Add(Of(QuantileError, SketchError))
	}
	return r
}

// perRequest sets the distributions of metrics with one value per request.
func (c *Collector) perRequest(r *Report) {
	if c.fold != nil {
		for i, to := range []*Distribution{ttft: &r.TTFT, ttst: &r.TTST, tpot: &r.TPOT, e2e: &r.E2E} {
			*to = c.fold.metrics[i].describe()
		}
		return
	}
	values, buf := make([]float64, 0, r.Completed), make([]float64, r.Completed)
	of := func(tokens int32, value func(*Record) float64) Distribution {
		return describeSamples(c.appendSamples(values, tokens, value), buf)
	}
	r.TTFT = of(1, func(r *Record) float64 { return float64(r.TTFT()) })
	r.TTST = of(2, func(r *Record) float64 { return float64(r.TTST()) })
	r.TPOT = of(2, func(r *Record) float64 { return float64(r.TPOT()) })
	r.E2E = of(1, func(r *Record) float64 { return float64(r.E2E()) })
}

// totals is sums over requests.
type totals struct {
	completed, input, reused, fetched int
	asked, gained                     int // answer tokens
	end                               float64
}

// add adds a request to the totals if the report includes it.
func (t *totals) add(c *Collector, r *Record) {
	if !c.isMeasured(r) {
		return
	}
	t.completed++
	t.input += int(r.InputTokens)
	t.asked += int(r.OutputTokens)
	t.gained += int(min(r.Tokens, r.OutputTokens))
	t.reused += int(r.Reused)
	t.end = max(t.end, float64(r.Last))
}

// countTotals sets the totals of the report and the values derived from them.
func (c *Collector) countTotals(r *Report) {
	t := c.addTotals()
	r.Requests, r.Completed, r.InputTokens, r.OutputTokens, r.DurationMS = c.Len(), t.completed, t.input, t.asked, t.end
	if c.early {
		r.OutputTokens = t.gained
	}
	r.ProcessedTokens = r.InputTokens + r.OutputTokens
	if r.divideBySeconds(r.Completed, r.InputTokens, r.OutputTokens); c.window.IsSet() {
		c.measureWindow(r)
	}
	if r.InputTokens > 0 {
		r.PrefixCacheReusedRatio = float64(t.reused) / float64(r.InputTokens)
	}
	if r.Readmissions = c.again; c.looked > 0 {
		r.ReadmittedReusedRatio = float64(c.found) / float64(c.looked)
		r.Add(Of("readmissions", r.Readmissions), Of("readmitted_reused_ratio", r.ReadmittedReusedRatio))
	}
	if c.drafts > 0 {
		r.AcceptedTokensPerPass = 1 + float64(c.accepted)/float64(c.verified)
		r.AcceptanceRate = float64(c.accepted) / float64(c.drafts)
		r.Add(Of("accepted_tokens_per_pass", r.AcceptedTokensPerPass), Of("draft_acceptance_rate", r.AcceptanceRate))
	}
	if r.ClippedRequests, r.ClippedTokens = c.clipped, c.clippedTokens; c.clipped > 0 {
		r.Add(Of("clipped_requests", c.clipped), Of("clipped_tokens", c.clippedTokens))
	}
	if r.CappedRequests, r.CappedTokens = c.capped, c.cappedTokens; c.capped > 0 {
		r.Add(Of("length_capped_requests", c.capped), Of("length_capped_tokens", c.cappedTokens))
	}
	r.divideByWall()
}

// addTotals returns the totals of all requests.
func (c *Collector) addTotals() (t totals) {
	if c.fold != nil {
		t = c.fold.totals
	}
	for i := range c.records {
		t.add(c, &c.records[i])
	}
	for id := range c.hits { // any order gives the same sum
		if c.isMeasured(c.Record(id)) {
			own, _ := c.Readmitted(id)
			t.reused -= own
		}
	}
	return t
}

// divideBySeconds sets the throughputs, given the totals, by the duration of the report.
func (r *Report) divideBySeconds(requests, input, output int) {
	seconds := max(r.DurationMS/1000.0, 1e-9)
	r.RequestsPerS = float64(requests) / seconds
	r.InputTokensPerS = float64(input) / seconds
	r.OutputTokensPerS = float64(output) / seconds
	r.TotalTokensPerS = float64(input+output) / seconds
}

// SetWall sets the real time of the simulation and the values per real second.
func (r *Report) SetWall(wall time.Duration) {
	r.WallMS = float64(wall) / 1e6
	r.divideByWall()
}

func (r *Report) divideByWall() {
	if r.WallMS > 0 {
		r.ProcessedTokensPerS = float64(float64(r.ProcessedTokens)/r.WallMS) * 1000.0
		r.ProcessedOutputPerS = float64(float64(r.OutputTokens)/r.WallMS) * 1000.0
	}
}

// HostReused is the key of the share of the input tokens that was loaded from host memory.
const HostReused = "host_cache_reused_ratio"

// HostReusedRatio returns the share of the input tokens that was loaded from host memory.
func (c *Collector) HostReusedRatio() float64 {
	t := c.addTotals()
	input, fetched := t.input, t.fetched
	for i, n := range c.fromHost {
		if c.isMeasured(&c.records[i]) {
			fetched += int(n)
		}
	}
	if input == 0 {
		return 0
	}
	return float64(fetched) / float64(input)
}

// appendSamples appends, in order of arrival, one value for each counted request with at least the given number of
// tokens, which must be >= 1.
func (c *Collector) appendSamples(dst []float64, tokens int32, value func(*Record) float64) []float64 {
	for i := range c.records {
		if r := &c.records[i]; r.Admitted() && r.Tokens >= tokens && (!c.windowed || c.window.Holds(r.Arrival)) {
			dst = append(dst, value(r))
		}
	}
	return dst
}

// LostEvents returns the number of KV events that engines dropped.
func (c *Collector) LostEvents() int { return c.lostEvents }

// HostTokens returns the tokens that engines sent to host memory, and the tokens that they loaded from it.
func (c *Collector) HostTokens() (sent, fetched int) { return c.toHost, c.loaded }
