package timing

import (
	"fmt"
	"io"
	"math"
	"os"

	"github.com/replay-llm/replay/internal/json"
)

// Profile is a fitted model with what it was fitted to, as a file holds it.
type Profile struct {
	Form       string     `json:"form"`    // names the shape of the model
	Version    int        `json:"version"` // of the file, ProfileVersion
	Source     string     `json:"source"`  // what the parameters come from
	Parameters Parameters `json:"parameters"`
	Engine     *Engine    `json:"engine,omitempty"`      // it was measured on
	Way        *Way       `json:"way,omitempty"`         // nil: the times were the engine's own
	Link       *Link      `json:"kv_transfer,omitempty"` // nil: no transfer was measured
	Warmup     *Warmup    `json:"warmup,omitempty"`      // of fresh servers; nil: none was seen
	// Unheard reports that KV events of the servers did not reach the router of the runs fitted to.
	Unheard bool `json:"no_kv_events,omitempty"`
	// Slow are the servers of the fitted runs that were slower than the server of the fitted times.
	Slow []SlowServer `json:"slow_servers,omitempty"`
	// Trusted, when not nil, are the passes the parameters were fitted to.
	Trusted *Trusted `json:"trusted,omitempty"`
	// Spreads are the standard deviations of fitted parameters, as shares of them,
	// in the order of the parameters.
	Spreads []Spread `json:"spreads,omitempty"`
}

// Way is what lies between a client and the engine: times that the client sees and the
// engine does not.
type Way struct {
	First       float64 `json:"first_s"`        // s more to the first token
	Token       float64 `json:"token_s"`        // s more for each token after it
	FirstSpread float64 `json:"first_spread_s"` // standard deviation over requests of First
	TokenSpread float64 `json:"token_spread_s"` // and of Token
}

// SlowServer is a server with passes that took longer than the passes of its peers by a share. Without a name it is the whole
// run, compared with the other runs.
type SlowServer struct {
	Run    string  `json:"run"`
	Server string  `json:"server,omitempty"`
	Share  float64 `json:"slower"`
}

// Warmup is the one pause of a server that has never served: in its first pass in which at least Requests requests gain a token.
type Warmup struct {
	Requests int     `json:"requests"`
	Time     float64 `json:"time_s"`
}

// Kinds of engines under other schedulers than vLLM's.
const (
	SGLang = "sglang"
	TRTLLM = "trtllm"
)

// ProfileVersion is the version of the files that are written and read.
const ProfileVersion = 1

// Engine is the server that a profile was measured on.
type Engine struct {
	Kind             string `json:"engine,omitempty"` // SGLang or TRTLLM; "": vLLM
	Model            string `json:"model,omitempty"`
	GPU              string `json:"gpu,omitempty"`
	Version          string `json:"vllm_version,omitempty"`
	Rules            string `json:"scheduler_profile,omitempty"` // of TRTLLM alone
	TensorParallel   int    `json:"tensor_parallel_size"`
	Blocks           int    `json:"num_gpu_blocks"` // 0: unknown, and never full
	BlockTokens      int    `json:"block_size"`
	MaxSeqs          int    `json:"max_num_seqs"`
	MaxBatchedTokens int    `json:"max_num_batched_tokens"`
	Async            bool   `json:"async_scheduling"`
}

// Trusted is the range of passes in which a model can be trusted: the 1st to the
// 99th percentile, by time, of those it was fitted to.
type Trusted struct {
	Tokens    Range `json:"tokens_per_pass"`
	Requests  Range `json:"requests_per_pass"`
	Context   Range `json:"kv_tokens"`             // tokens of KV cache in use
	PerSeq    Range `json:"kv_tokens_per_request"` // tokens of KV cache in use per running request
	Waiting   Range `json:"waiting_requests"`
	Preempted bool  `json:"preemptions"` // there were preemptions
}

// Range is an interval, both ends included.
type Range struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// Holds reports whether x is in the range, give or take a twentieth.
func (r Range) Holds(x float64) bool {
	const slack = 0.05
	return x >= r.Least-slack*r.Least && x <= r.Most+slack*r.Most
}

// Spread is how well a parameter is known.
type Spread struct {
	Name  string  `json:"parameter"`
	Share float64 `json:"spread"` // standard deviation over value
}

// LoadProfile reads a profile.
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

// check refuses a way that takes no time that could be.
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

// Write writes p as JSON, for LoadProfile.
func (p *Profile) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(p)
}
