package cluster

import (
	"context"
	"fmt"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
)

// tickMetrics serves the metrics of the current tick. tickMetrics implements metrics.MetricsClient.
type tickMetrics struct {
	tick *Tick
	// external replaces the values of external metrics; nil: the values of the tick are used.
	external func(name string) ([]int64, error)
}

var _ metrics.MetricsClient = (*tickMetrics)(nil)

// GetRawMetric returns a metric of the ready pods. Leaving pods have a very large value.
func (m *tickMetrics) GetRawMetric(name, _ string, _, _ labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	values, ok := m.tick.perPod[name]
	if !ok {
		return nil, time.Time{}, fmt.Errorf("no metric %s", name)
	}
	now, info := time.Now(), metrics.PodMetricsInfo{}
	for i, value := range values {
		info[podName(ready, i)] = metrics.PodMetric{Timestamp: now, Window: time.Minute, Value: toMilli(value)}
	}
	for i := range m.tick.Leaving {
		info[podName(leaving, i)] = metrics.PodMetric{Timestamp: now, Window: time.Minute, Value: toMilli(1e6)}
	}
	return info, now, nil
}

// GetExternalMetric returns a metric of the pool.
func (m *tickMetrics) GetExternalMetric(name, _ string, _ labels.Selector) ([]int64, time.Time, error) {
	if m.external != nil {
		values, err := m.external(name)
		return values, time.Now(), err
	}
	value, ok := m.tick.poolWide[name]
	if !ok {
		return nil, time.Time{}, fmt.Errorf("no metric %s", name)
	}
	return []int64{toMilli(value)}, time.Now(), nil
}

// GetResourceMetric returns an error, since pods have no CPU metrics.
func (m *tickMetrics) GetResourceMetric(_ context.Context, name core.ResourceName, _ string, _ labels.Selector, _ string) (metrics.PodMetricsInfo, time.Time, error) {
	return nil, time.Time{}, fmt.Errorf("no resource metric %s", name)
}

// GetObjectMetric returns an error, since there are no object metrics.
func (m *tickMetrics) GetObjectMetric(name, _ string, _ *autoscaling.CrossVersionObjectReference, _ labels.Selector) (int64, time.Time, error) {
	return 0, time.Time{}, fmt.Errorf("no object metric %s", name)
}
