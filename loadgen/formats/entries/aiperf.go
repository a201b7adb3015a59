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
	Profiled bool // the record is of the measured phase
	Failed   bool // the request failed or was cancelled
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

// Metric returns the object and the key of the value of a metric. A metric is a number or an object with the key value.
func (x *Export) Metric(name string) (f *scan.Fields, key string) {
	if x.metrics == nil {
		x.metrics = x.OpenSub("metrics")
	}
	if v := x.metrics.Value(name); v != nil && v[0] == '{' {
		return x.metrics.OpenSub(name), "value"
	}
	return x.metrics, name
}

// Number returns the value of a metric in its unit. Number returns NaN if the metric is missing.
func (x *Export) Number(name string) float64 { return numberOr(x.Metric(name)) }

// Seconds returns a metric in seconds. A metric without a unit is in ms. Seconds returns NaN if the metric is
// missing.
func (x *Export) Seconds(name string) float64 {
	perSecond := map[string]float64{"ns": 1e9, "us": 1e6, "s": 1, "sec": 1}
	f, key := x.Metric(name)
	return numberOr(f, key) / cmp.Or(perSecond[string(f.ReadText("unit"))], 1e3)
}

// numberOr returns the number with the given key. numberOr returns NaN if the object has no such number.
func numberOr(f *scan.Fields, key string) float64 {
	if v, ok := f.ReadFloat(key); ok {
		return v
	}
	return math.NaN()
}
