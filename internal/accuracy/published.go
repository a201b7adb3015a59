package accuracy

import (
	"fmt"
	"math"
	"strings"
)

// Published has the errors of replays of published measurements of servers. Each measurement has one configuration, a
// mean TTFT and a mean TPOT. Errors are simulated minus measured values, in %.
type Published struct {
	Source    string      `json:"source"`
	Rows      int         `json:"rows"` // number of rows of the source
	LeftOut   []LeftOut   `json:"left_out"`
	Groups    []Group     `json:"groups"`
	Classes   []Band      `json:"classes"` // classes of all levels
	Fits      []Constants `json:"constants"`
	FrontEnds []FrontEnd  `json:"front_ends"`
	Sample    SampleError `json:"sample"`
}

// LeftOut is the number of rows that are excluded for one reason.
type LeftOut struct {
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
}

// SampleError is the mean absolute error of mean TPOT over the rows in the repository.
type SampleError struct {
	Rows int     `json:"rows"`
	Mean float64 `json:"mean"`
}

// Constants are corrections of pass durations that were fitted to some servers, and the errors of these corrections
// on other servers.
type Constants struct {
	Servers string  `json:"servers"` // an engine, or some releases of an engine
	Fitted  string  `json:"fitted"`
	Prompts float64 `json:"prompts"`      // factor for the duration of passes that compute prompts
	Prompt  float64 `json:"prompt_ms"`    // additional ms of a pass that computes prompts
	Base    float64 `json:"base_ms"`      // ms per pass
	Request float64 `json:"request_ms"`   // ms per request of a pass
	Rows    int     `json:"rows"`         // number of rows tested: the rows that were not fitted, or all rows
	Mean    float64 `json:"mean"`         // mean absolute error of mean TPOT on these rows, in %
	Program float64 `json:"program_mean"` // the same error with the constants of the program
}

// FrontEnd is a model of a front end that was fitted to TTFT of some servers, and its errors on other servers.
type FrontEnd struct {
	Servers       string  `json:"servers"` // an engine
	Fitted        string  `json:"fitted"`
	Base          float64 `json:"base_ms"`  // ms per request
	Token         float64 `json:"token_ms"` // ms per prompt token
	Rows          int     `json:"rows"`     // number of rows tested: the rows that were not fitted, or all rows
	Mean          float64 `json:"mean"`     // mean absolute error of mean TTFT on these rows, in %
	Median        float64 `json:"median"`
	Program       float64 `json:"program_mean"` // the same error with the front end of the program
	ProgramMedian float64 `json:"program_median"`
}

// Group has the errors of all rows with the same value of one property.
type Group struct {
	By        string  `json:"by"`
	Name      string  `json:"name"`
	Rows      int     `json:"rows"`
	Mean      float64 `json:"mean"` // mean of the absolute errors of mean TPOT
	Median    float64 `json:"median"`
	In15      float64 `json:"in_15"` // share of rows with an error of at most 15 %, in %
	In20      float64 `json:"in_20"`
	First     float64 `json:"ttft_median"` // median error of TTFT at low concurrency
	FirstRows int     `json:"ttft_rows"`
}

// Kind describes a server by its properties. An empty field matches any value.
type Kind struct {
	Engine     string `json:"engine,omitempty"`     // engine name of the operator tables
	Family     string `json:"family,omitempty"`     // model_type of the model
	Weights    string `json:"weights,omitempty"`    // data type of most weights
	Generation string `json:"generation,omitempty"` // generation of the GPU
	GPUs       string `json:"gpus,omitempty"`       // OneGPU or SeveralGPUs
	Shape      string `json:"shape,omitempty"`      // Dense or WithExperts
	// Ranks is SeveralRanks for data-parallel attention with several ranks, and "" for one rank. The ranks of a pass
	// wait for each other, so the errors differ. Unlike other fields, "" does not match SeveralRanks.
	Ranks string `json:"ranks,omitempty"`
}

// Values of Kind.GPUs, Kind.Shape and Kind.Ranks.
const (
	OneGPU      = "one GPU"
	SeveralGPUs = "several GPUs"
	Dense       = "dense"
	WithExperts = "experts"

	SeveralRanks = "several ranks"
)

// MinClassRows is the minimum number of rows of a class.
const MinClassRows = 10

// Band is the range of errors for servers of a kind.
type Band struct {
	Kind
	Rows   int     `json:"rows"`
	Median float64 `json:"median"`
	Low    float64 `json:"p10"`
	High   float64 `json:"p90"`
}

// Levels returns the classes of a server, from the narrowest to the widest. The widest class has all servers with the
// same Ranks.
func (k Kind) Levels() []Kind {
	all := []Kind{
		k,
		{Engine: k.Engine, Family: k.Family, Weights: k.Weights, Generation: k.Generation},
		{Engine: k.Engine, Family: k.Family, Weights: k.Weights},
		{Family: k.Family, Weights: k.Weights, Generation: k.Generation},
		{Engine: k.Engine, Family: k.Family},
		{Family: k.Family},
		{Engine: k.Engine, Shape: k.Shape, Weights: k.Weights, Generation: k.Generation},
		{Engine: k.Engine, Shape: k.Shape, Generation: k.Generation},
		{Shape: k.Shape, Generation: k.Generation},
		{Engine: k.Engine, Shape: k.Shape},
		{Shape: k.Shape},
		{},
	}
	for i := range all {
		all[i].Ranks = k.Ranks
	}
	return all
}

// BandOf returns the band of the narrowest class of a server. ok is false if no class has a band.
func (e *Errors) BandOf(k Kind) (b Band, ok bool) {
	for _, level := range k.Levels() {
		for _, b := range e.Published.Classes {
			if b.Kind == level {
				return b, true
			}
		}
	}
	return b, false
}

// String returns the kind as text.
func (k Kind) String() string {
	var parts []string
	for _, part := range []string{NameEngine(k.Engine), strings.ReplaceAll(k.Family, "_", "-"), k.Shape, k.Weights, k.Generation, k.GPUs, k.Ranks} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "all engines, models and GPUs"
	}
	return strings.Join(parts, ", ")
}

// NameEngine returns the name of an engine in its official spelling.
func NameEngine(name string) string {
	switch name {
	case "vllm":
		return "vLLM"
	case "sglang":
		return "SGLang"
	case "trtllm":
		return "TensorRT-LLM"
	}
	return name
}

// Range returns the band as texts quote it: the median, with the 10th and the 90th percentile.
func (b *Band) Range() string {
	return fmt.Sprintf("%s (%s to %s) %%", formatSigned(b.Median), formatSigned(b.Low), formatSigned(b.High))
}

// formatSigned returns a percentage as a whole number with its sign.
func formatSigned(x float64) string { return fmt.Sprintf("%+.0f", math.Round(x)+0) }
