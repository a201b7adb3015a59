package accuracy

import (
	"fmt"
	"math"
	"strings"
)

// Published has the errors of replays on published measurements of servers: one configuration each, with mean TTFT and
// mean TPOT. Errors are in %, simulated to measured.
type Published struct {
	Source    string      `json:"source"`
	Rows      int         `json:"rows"` // of the source
	LeftOut   []LeftOut   `json:"left_out"`
	Groups    []Group     `json:"groups"`
	Classes   []Band      `json:"classes"` // of all levels
	Fits      []Constants `json:"constants"`
	FrontEnds []FrontEnd  `json:"front_ends"`
	Sample    SampleError `json:"sample"`
}

// LeftOut is why rows are left out, and how many.
type LeftOut struct {
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
}

// SampleError is the mean absolute error of mean TPOT over the rows that the repository has.
type SampleError struct {
	Rows int     `json:"rows"`
	Mean float64 `json:"mean"`
}

// Constants are corrections of pass times that were fitted to some servers, and their errors on other servers.
type Constants struct {
	Servers string  `json:"servers"` // an engine, or releases of it
	Fitted  string  `json:"fitted"`
	Prompts float64 `json:"prompts"`      // factor of passes that compute prompts
	Prompt  float64 `json:"prompt_ms"`    // ms more of such a pass
	Base    float64 `json:"base_ms"`      // ms a pass
	Request float64 `json:"request_ms"`   // ms a request in the pass
	Rows    int     `json:"rows"`         // judged: those left out, or all
	Mean    float64 `json:"mean"`         // absolute error of mean TPOT on them, in %
	Program float64 `json:"program_mean"` // the same with the program's constants
}

// FrontEnd is a front end that was fitted to TTFT of some servers, and its errors on other servers.
type FrontEnd struct {
	Servers       string  `json:"servers"` // an engine
	Fitted        string  `json:"fitted"`
	Base          float64 `json:"base_ms"`  // ms a request
	Token         float64 `json:"token_ms"` // ms a token of its prompt
	Rows          int     `json:"rows"`     // judged: those left out, or all
	Mean          float64 `json:"mean"`     // absolute error of mean TTFT on them, in %
	Median        float64 `json:"median"`
	Program       float64 `json:"program_mean"` // the same with the program's front end
	ProgramMedian float64 `json:"program_median"`
}

// Group has the errors of rows with one property.
type Group struct {
	By        string  `json:"by"`
	Name      string  `json:"name"`
	Rows      int     `json:"rows"`
	Mean      float64 `json:"mean"` // of the absolute errors of mean TPOT
	Median    float64 `json:"median"`
	In15      float64 `json:"in_15"` // rows within 15 %, in %
	In20      float64 `json:"in_20"`
	First     float64 `json:"ttft_median"` // at low concurrency
	FirstRows int     `json:"ttft_rows"`
}

// Kind is a kind of server. An empty field stands for any value.
type Kind struct {
	Engine     string `json:"engine,omitempty"`     // as operator tables name it
	Family     string `json:"family,omitempty"`     // model_type of the model
	Weights    string `json:"weights,omitempty"`    // type of most of them
	Generation string `json:"generation,omitempty"` // of the GPU
	GPUs       string `json:"gpus,omitempty"`       // OneGPU, SeveralGPUs
	Shape      string `json:"shape,omitempty"`      // Dense, WithExperts
	// Ranks is SeveralRanks of data-parallel attention, or "" for one: the ranks of a pass wait for one another, and
	// errors differ. It stands for nothing else, so that no class mixes the two.
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

// MinClassRows is the least number of rows of a class.
const MinClassRows = 10

// Band is the range of errors on servers of a kind.
type Band struct {
	Kind
	Rows   int     `json:"rows"`
	Median float64 `json:"median"`
	Low    float64 `json:"p10"`
	High   float64 `json:"p90"`
}

// Levels returns the classes that a server belongs to, the narrowest first and all servers with one rank, or with several, last.
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

// BandOf returns the band of the narrowest class of a server that has enough rows; ok is false without any.
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

// String returns the kind in words.
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

// NameEngine returns the name of an engine as its authors write it.
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

// formatSigned returns a whole number of % with its sign.
func formatSigned(x float64) string { return fmt.Sprintf("%+.0f", math.Round(x)+0) }
