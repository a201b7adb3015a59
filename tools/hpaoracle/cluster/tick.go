// Package cluster runs Kubernetes' unmodified horizontal controller on a cluster in memory with a virtual clock. The
// clientsets have no server, and the metrics come from lines of JSON.
//
// Read tick.go, then cluster.go, metrics.go and run.go, the main function of the programs.
package cluster

import (
	"encoding/json"
	"fmt"
)

// Greeting is the first line that replay sends to a scaler (docs/autoscaling.md, A program).
type Greeting struct {
	Protocol string  `json:"protocol"`
	Version  int     `json:"version"`
	Sync     float64 `json:"sync"` // ms between two ticks
}

// Tick is the line that replay sends at a tick. Scraped values are nil until a scrape has arrived.
type Tick struct {
	Now      float64 `json:"now"`     // ms since the start
	Workers  int32   `json:"workers"` // pods of the deployment, including starting pods
	Leaving  int     `json:"leaving"` // pods with a deletion timestamp
	Missing  *int    `json:"missing"` // running pods without metrics
	Ready    *int    `json:"ready"`   // running pods with metrics
	facts    map[string]json.RawMessage
	poolWide map[string]float64
	perPod   map[string][]float64
}

// UnmarshalJSON decodes a tick and its metrics. A metric is a number for the pool, or a list with one number per
// ready pod.
func (t *Tick) UnmarshalJSON(text []byte) error {
	type plain Tick
	if err := json.Unmarshal(text, (*plain)(t)); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &t.facts); err != nil {
		return err
	}
	t.poolWide, t.perPod = map[string]float64{}, map[string][]float64{}
	for name, fact := range t.facts {
		var all []float64
		var one *float64
		switch {
		case json.Unmarshal(fact, &one) == nil && one != nil:
			t.poolWide[name] = *one
		case json.Unmarshal(fact, &all) == nil && all != nil:
			t.perPod[name] = all
		}
	}
	return nil
}

// Sum returns a metric of the pool, or the sum of a metric over its pods.
func (t *Tick) Sum(name string) (float64, error) {
	if value, ok := t.poolWide[name]; ok {
		return value, nil
	}
	values, ok := t.perPod[name]
	if !ok {
		return 0, fmt.Errorf("no metric %s", name)
	}
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	return sum, nil
}

// countOf returns a number, or 0 for nil.
func countOf(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// toMilli returns a value in whole thousandths, the unit of metrics adapters.
func toMilli(x float64) int64 { return int64(x * 1000.0) }
