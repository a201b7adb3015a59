package entries

import (
	"cmp"
	"math"

	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// Export is a record of AIPerf's profile export.
type Export struct {
	*scan.Fields
	Metadata *scan.Fields
	Profiled bool // it is of the phase that is measured
	Failed   bool // or was cancelled
	metrics  *scan.Fields
}

// ReadExport reads a record.
func ReadExport(f *scan.Fields) *Export {
	x := &Export{Fields: f, Metadata: f.OpenSub("metadata")}
	phase := string(x.Metadata.ReadText("benchmark_phase"))
	x.Profiled = phase == "" || phase == "profiling"
	x.Failed = string(x.Metadata.Value("was_cancelled")) == "true" || !IsBlank(f.Value("error"))
	return x
}

// Metric returns where the value of a metric is: a number, or an object with a value.
func (x *Export) Metric(name string) (f *scan.Fields, key string) {
	if x.metrics == nil {
		x.metrics = x.OpenSub("metrics")
	}
	if v := x.metrics.Value(name); v != nil && v[0] == '{' {
		return x.metrics.OpenSub(name), "value"
	}
	return x.metrics, name
}

// Number returns a metric in its unit; NaN if there is none.
func (x *Export) Number(name string) float64 { return numberOr(x.Metric(name)) }

// Seconds returns a metric that is a time, in ms unless it has another unit; NaN if there is none.
func (x *Export) Seconds(name string) float64 {
	perSecond := map[string]float64{"ns": 1e9, "us": 1e6, "s": 1, "sec": 1}
	f, key := x.Metric(name)
	return numberOr(f, key) / cmp.Or(perSecond[string(f.ReadText("unit"))], 1e3)
}

// numberOr returns a number of f, or NaN.
func numberOr(f *scan.Fields, key string) float64 {
	if v, ok := f.ReadFloat(key); ok {
		return v
	}
	return math.NaN()
}
