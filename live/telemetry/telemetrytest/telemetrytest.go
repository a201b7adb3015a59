// Package telemetrytest parses metrics in the Prometheus text format, for tests.
package telemetrytest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is a parsed Prometheus text. Types has the type of each family, such as counter. Samples are keyed by name
// and labels, as in name{a="b",c="d"}. The keys of a histogram also end in " count", " sum" or " le BOUND".
type Metrics struct {
	Types   map[string]string
	Samples map[string]float64
}

// Parse parses a Prometheus text.
func Parse(text []byte) (*Metrics, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	m := &Metrics{Types: map[string]string{}, Samples: map[string]float64{}}
	for name, f := range families {
		m.Types[name] = strings.ToLower(f.GetType().String())
		for _, one := range f.Metric {
			m.addMetric(name, one)
		}
	}
	return m, nil
}

// addMetric adds the samples of one metric.
func (m *Metrics) addMetric(name string, one *dto.Metric) {
	var labels []string
	for _, l := range one.Label {
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	slices.Sort(labels)
	key := name + "{" + strings.Join(labels, ",") + "}"
	h := one.Histogram
	if h == nil {
		m.Samples[key] = one.GetCounter().GetValue() + one.GetGauge().GetValue()
		return
	}
	m.Samples[key+" count"], m.Samples[key+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
	for _, b := range h.Bucket {
		m.Samples[fmt.Sprintf("%s le %g", key, b.GetUpperBound())] = float64(b.GetCumulativeCount())
	}
}
