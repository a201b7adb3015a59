package telemetry

import "strings"

// CutOffs makes the counter of publishers of KV events that exceeded a limit. CutOffs returns a function that adds
// one for a limit.
func (m *Metrics) CutOffs() func(reason string) {
	cut := maker{registry: m.registry}.newCounter("replay_kv_publishers_cut_total", "Publishers of KV events that are followed no more, by the limit they exceeded.", "limit")
	return func(reason string) { cut.WithLabelValues(reason).Inc() }
}

// Refusals makes the counter of rejected connections. Refusals returns a function that adds one for a listener and a
// reason.
func (m *Metrics) Refusals() func(listener, reason string) {
	refused := maker{registry: m.registry}.newCounter("replay_refused_connections_total", "Connections that were refused, by listener and reason.", "listener", "reason")
	return func(listener, reason string) {
		refused.WithLabelValues(strings.ReplaceAll(listener, " ", "_"), reason).Inc()
	}
}
