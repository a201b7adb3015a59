package telemetry

import "strings"

// Refusals makes the counter of connections that were refused, and returns what counts
// one, by the listener and the reason.
func (m *Metrics) Refusals() func(listener, reason string) {
	refused := maker{registry: m.registry}.newCounter("replay_refused_connections_total", "Connections that were refused, by listener and reason.", "listener", "reason")
	return func(listener, reason string) {
		refused.WithLabelValues(strings.ReplaceAll(listener, " ", "_"), reason).Inc()
	}
}
