package timing

import (
	"fmt"
	"math"
)

// Link is the timing of a KV cache transfer from a prefill to a decode worker.
type Link struct {
	GBPerSecond   float64 `json:"bandwidth_gb_s"` // 10^9 bytes per second, total of all GPUs of a worker
	Latency       float64 `json:"latency_s"`      // fixed time of a transfer, for any size
	BytesPerToken int     `json:"kv_bytes_per_token"`
	Transfers     int     `json:"transfers"` // number of transfers in the fit
	// BandwidthSpread and the next field are standard deviations over fits to parts of the transfers, relative to the
	// values; 0 means that there are too few transfers.
	BandwidthSpread float64 `json:"bandwidth_spread,omitempty"`
	LatencySpread   float64 `json:"latency_spread,omitempty"`
}

// check returns an error for impossible values.
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
