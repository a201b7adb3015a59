package timing

import (
	"fmt"
	"math"
)

// Link is what the transfer of a KV cache from a prefill to a decode worker takes.
type Link struct {
	GBPerSecond   float64 `json:"bandwidth_gb_s"` // 10^9 bytes per second, of all GPUs of a worker together
	Latency       float64 `json:"latency_s"`      // of a transfer, whatever its size
	BytesPerToken int     `json:"kv_bytes_per_token"`
	Transfers     int     `json:"transfers"` // that it was fitted to
	// Standard deviations as shares of the values, between fits to parts of the transfers; 0: there are too
	// few to tell.
	BandwidthSpread float64 `json:"bandwidth_spread,omitempty"`
	LatencySpread   float64 `json:"latency_spread,omitempty"`
}

// check refuses a link that takes no time that could be.
func (l *Link) check() error {
	switch {
	case l == nil:
		return nil
	case !(l.GBPerSecond > 0) || math.IsInf(l.GBPerSecond, 0):
		return fmt.Errorf("kv_transfer: bandwidth_gb_s is %v, must be a finite number above 0", l.GBPerSecond)
	case !(l.Latency >= 0) || math.IsInf(l.Latency, 0):
		return fmt.Errorf("kv_transfer: latency_s is %v, must be a finite number >= 0", l.Latency)
	case l.BytesPerToken < 1:
		return fmt.Errorf("kv_transfer: kv_bytes_per_token is %d, must be at least 1", l.BytesPerToken)
	}
	return nil
}
