package drt_test

import (
	"github.com/replay-llm/replay/live/telemetry"
)

// counts reads the metrics of an endpoint in tests.
type counts struct {
	*telemetry.Endpoint
	metrics *telemetry.Metrics
}

func newCounts() *counts {
	m := telemetry.NewMetrics()
	return &counts{m.Endpoint(telemetry.Name{}), m}
}

// count returns the value of a metric of the endpoint.
func (c *counts) count(name string) int {
	return int(c.metrics.Value("dynamo_component_"+name, nil))
}

func (c *counts) received() int  { return c.count("requests_total") }
func (c *counts) cancelled() int { return c.count("cancellation_total") }
func (c *counts) sent() int      { return c.count("response_bytes_total") }

func (c *counts) failures(kind string) int {
	return int(c.metrics.Value("dynamo_component_errors_total", map[string]string{"error_type": kind}))
}
