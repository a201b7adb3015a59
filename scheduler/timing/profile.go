package timing

import (
	"fmt"
	"io"
	"math"
	"os"

	"github.com/replay-llm/replay/internal/json"
)

// Profile is the content of a profile file: a fitted model and the data about its fit.
type Profile struct {
	Form       string     `json:"form"`    // name of the model type
	Version    int        `json:"version"` // version of the file, ProfileVersion
	Source     string     `json:"source"`  // source of the parameters
	Parameters Parameters `json:"parameters"`
	Engine     *Engine    `json:"engine,omitempty"`      // the server of the measurements
	Way        *Way       `json:"way,omitempty"`         // time between a client and the engine; nil: the times are from the engine itself
	Link       *Link      `json:"kv_transfer,omitempty"` // measured link; nil: no transfer was measured
	Warmup     *Warmup    `json:"warmup,omitempty"`      // pause of fresh servers; nil: none was measured
	// Unheard reports that KV events of the servers did not reach the router in the fitted runs.
	Unheard bool `json:"no_kv_events,omitempty"`
	// Slow lists the servers of the fitted runs that were slower than the server of the fitted times.
	Slow []SlowServer `json:"slow_servers,omitempty"`
	// Trusted, if not nil, is the range of passes that the parameters were fitted to.
	Trusted *Trusted `json:"trusted,omitempty"`
	// Spreads are the standard deviations of fitted parameters, relative to their values, in the order of the
	// parameters.
	Spreads []Spread `json:"spreads,omitempty"`
}

// Way is the time between a client and the engine, which the client measures and the engine does not.
type Way struct {
	First       float64 `json:"first_s"`        // time in s added to the first token
	Token       float64 `json:"token_s"`        // time in s added to each later token
	FirstSpread float64 `json:"first_spread_s"` // standard deviation of First over requests
	TokenSpread float64 `json:"token_spread_s"` // standard deviation of Token over requests
}

// SlowServer is a server with passes that took longer than the passes of its peers by a share. A SlowServer without a
// name means the whole run, compared with the other runs.
type SlowServer struct {
	Run    string  `json:"run"`
	Server string  `json:"server,omitempty"`
	Share  float64 `json:"slower"`
}

// Warmup is a single pause of a fresh server. The pause happens in the first pass in which at least Requests requests
// gain a token.
type Warmup struct {
	Requests int     `json:"requests"`
	Time     float64 `json:"time_s"`
}

// Names of engines with other schedulers than vLLM's.
const (
	SGLang = "sglang"
	TRTLLM = "trtllm"
)

// ProfileVersion is the version of the files that are written and read.
const ProfileVersion = 1

// Engine describes the server of a measured profile.
type Engine struct {
	Kind             string `json:"engine,omitempty"` // SGLang or TRTLLM; "": vLLM
	Model            string `json:"model,omitempty"`
	GPU              string `json:"gpu,omitempty"`
	Version          string `json:"vllm_version,omitempty"`
	Rules            string `json:"scheduler_profile,omitempty"` // only for TRTLLM
	TensorParallel   int    `json:"tensor_parallel_size"`
	Blocks           int    `json:"num_gpu_blocks"` // number of KV blocks; 0: unknown, treated as unlimited
	BlockTokens      int    `json:"block_size"`
	MaxSeqs          int    `json:"max_num_seqs"`
	MaxBatchedTokens int    `json:"max_num_batched_tokens"`
	Async            bool   `json:"async_scheduling"`
}

// Trusted is the range of passes in which a model is reliable: the 1st to the 99th percentile, weighted by time, of
// the fitted passes.
type Trusted struct {
	Tokens    Range `json:"tokens_per_pass"`
	Requests  Range `json:"requests_per_pass"`
	Context   Range `json:"kv_tokens"`             // tokens of KV cache in use
	PerSeq    Range `json:"kv_tokens_per_request"` // tokens of KV cache in use per running request
	Waiting   Range `json:"waiting_requests"`
	Preempted bool  `json:"preemptions"` // the fitted passes include preemptions
}

// Range is an interval that includes both ends.
type Range struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// Holds reports whether x is in the range, with a tolerance of a twentieth.
func (r Range) Holds(x float64) bool {
	const slack = 0.05
	return x >= r.Least-slack*r.Least && x <= r.Most+slack*r.Most
}

// Spread is the uncertainty of a parameter.
type Spread struct {
	Name  string  `json:"parameter"`
	Share float64 `json:"spread"` // standard deviation divided by the value
}

// LoadProfile reads a profile from a file.
func LoadProfile(path string) (*Profile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &Profile{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s: %w, must be a timing profile as JSON, or an .npz file", path, err)
	}
	if p.Version != ProfileVersion {
		return nil, fmt.Errorf("%s: version is %d, must be %d", path, p.Version, ProfileVersion)
	}
	if err := p.Parameters.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := p.Way.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := p.Link.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if w := p.Warmup; w != nil && (w.Requests < 1 || !(w.Time > 0) || math.IsInf(w.Time, 0)) {
		return nil, fmt.Errorf("%s: warmup: requests are %d and time_s is %v, must be at least 1, and a finite number > 0", path, w.Requests, w.Time)
	}
	return p, nil
}

// check returns an error for impossible values.
func (w *Way) check() error {
	if w == nil {
		return nil
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"first_s", w.First}, {"token_s", w.Token}, {"first_spread_s", w.FirstSpread}, {"token_spread_s", w.TokenSpread}} {
		if !(f.value >= 0) || math.IsInf(f.value, 0) {
			return fmt.Errorf("way: %s is %v, must be a finite number >= 0", f.name, f.value)
		}
	}
	return nil
}

// Write writes p as JSON that LoadProfile can read.
func (p *Profile) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(p)
}
