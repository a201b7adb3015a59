package calibrate

import (
	"fmt"
	"io"
	"math"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Transfers is the link that was fitted to the KV transfers between prefill and decode servers.
type Transfers struct {
	Run   string       `json:"run"`
	Link  *timing.Link `json:"kv_transfer"`
	Notes []string     `json:"notes"` // assumptions of the fit
}

// FitTransfers fits the link between prefill and decode servers to the measured transfers in a directory. The
// argument known has settings that the directory lacks, by the keys of meta.json.
func FitTransfers(dir string, known map[string]any) (*Transfers, error) {
	s, err := measured.ReadSettingsOf(dir, known)
	if err != nil {
		return nil, err
	}
	perToken, err := s.TransferBytes()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	all, err := measured.ReadTransfers(dir, perToken)
	if err != nil {
		return nil, err
	}
	link, err := fitLink(all, perToken, s.TensorParallel)
	if err == nil {
		err = checkLink(&s, link)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &Transfers{dir, link, all.Notes}, nil
}

// checkLink returns an error if the link is faster than the physical links of a worker's GPUs.
func checkLink(s *measured.Settings, l *timing.Link) error {
	gpu, err := hardware.FindGPU(s.GPU, nil)
	if err != nil {
		return nil // the bandwidth is unknown
	}
	f := hardware.Fit{GPU: gpu, TP: max(s.TensorParallel, 1), PP: 1}
	if most := max(f.NetworkGBPerSecond(), gpu.Link*float64(f.TP)); l.GBPerSecond*overClock > most {
		return fmt.Errorf("transfers at %.4g GB/s, must be at most the %.4g GB/s of the links of %d %s: were some blocks there before?", l.GBPerSecond, most, f.TP, gpu.Name)
	}
	return nil
}

// AddTransfers adds the link of transfers to the profile.
func (r *Result) AddTransfers(t *Transfers) {
	r.Profile.Link = t.Link
	r.Notes = append(r.Notes, t.Notes...)
}

// WriteText writes t as readable text.
func (t *Transfers) WriteText(w io.Writer) error {
	text := fmt.Sprintf("Fitted to %s: %d transfers\n", t.Run, t.Link.Transfers)
	for _, n := range t.Notes {
		text += fmt.Sprintf("  assumed: %s\n", n)
	}
	text += "\n" + describeLink(t.Link)
	text += fmt.Sprintf("--kv-bytes-per-token %d --kv-transfer-bandwidth %.4g \\\n    --kv-transfer-latency-ms %.4g\n", t.Link.BytesPerToken, t.Link.GBPerSecond, 1000*t.Link.Latency)
	_, err := io.WriteString(w, terminal.WrapText(text, 2))
	return err
}

// describeLink returns a line of text about a link.
func describeLink(l *timing.Link) string {
	spread := func(share float64) string {
		switch {
		case share == 0:
			return ""
		case share > identified:
			return fmt.Sprintf(" (+- %.1f %%, not identified)", 100*share)
		}
		return fmt.Sprintf(" (+- %.1f %%)", 100*share)
	}
	return fmt.Sprintf("KV transfers: %.4g GB/s%s, and %.4g ms%s each; %d bytes a token\n",
		l.GBPerSecond, spread(l.BandwidthSpread), 1000*l.Latency, spread(l.LatencySpread), l.BytesPerToken)
}

// fitLink returns the link that fits the measured transfers.
func fitLink(t *measured.Transfers, perToken, gpus int) (*timing.Link, error) {
	slope, latency := fitLine(t.All)
	if !(slope > 0) {
		return nil, fmt.Errorf("of %d transfers the larger ones take less time: their time must grow with their size", len(t.All))
	}
	l := &timing.Link{Latency: latency, BytesPerToken: perToken}
	for _, x := range t.All {
		l.Transfers += x.Count
	}
	side := 1.0
	if t.Rank {
		side = float64(max(gpus, 1))
	}
	l.GBPerSecond = side / slope / 1e9
	if !differInSize(t.All) {
		t.Notes = append(t.Notes, "all transfers are of one size: latency cannot be separated, so all time counts as bandwidth")
	}
	var slopes, latencies []float64
	for piece := range partsOfRuns {
		var part []measured.Transfer
		for i := piece; i < len(t.All); i += partsOfRuns {
			part = append(part, t.All[i])
		}
		if len(part) < 2 {
			return l, nil
		}
		a, b := fitLine(part)
		slopes, latencies = append(slopes, a), append(latencies, b)
	}
	l.BandwidthSpread = spreadOf(slopes) / slope
	if latency > 0 {
		l.LatencySpread = spreadOf(latencies) / latency
	}
	return l, nil
}

// differInSize reports whether the transfers have different sizes.
func differInSize(all []measured.Transfer) bool {
	least, most := math.Inf(1), 0.0
	for _, x := range all {
		least, most = min(least, x.Bytes), max(most, x.Bytes)
	}
	return most > (1+sameSize)*least
}

// fitLine returns the time in s per byte and the additional time per transfer. The time per byte and the additional
// time are medians over transfers or pairs of transfers, so single slow transfers have little influence.
func fitLine(all []measured.Transfer) (slope, latency float64) {
	if stride := (len(all) + mostPairs - 1) / mostPairs; stride > 1 {
		var some []measured.Transfer
		for i := 0; i < len(all); i += stride {
			some = append(some, all[i])
		}
		all = some
	}
	var rates, slopes, rest []float64
	for i, a := range all {
		rates = append(rates, a.Seconds/a.Bytes)
		for _, b := range all[i+1:] {
			if math.Abs(a.Bytes-b.Bytes) > sameSize*min(a.Bytes, b.Bytes) {
				slopes = append(slopes, (b.Seconds-a.Seconds)/(b.Bytes-a.Bytes))
			}
		}
	}
	whole := measured.QuantileOf(rates, 0.5)
	if len(slopes) == 0 {
		return whole, 0
	}
	slope = measured.QuantileOf(slopes, 0.5)
	for _, x := range all {
		rest = append(rest, x.Seconds-float64(slope*x.Bytes))
	}
	if latency = measured.QuantileOf(rest, 0.5); latency < 0 {
		return whole, 0
	}
	return slope, latency
}

// spreadOf returns the standard deviation of values.
func spreadOf(values []float64) float64 {
	mean, sum := measured.MeanOf(values), 0.0
	for _, v := range values {
		sum += float64(squareOf(v - mean))
	}
	return math.Sqrt(sum / float64(len(values)-1))
}

// sameSize is the share by which two sizes must differ to separate latency from bandwidth.
const sameSize = 0.1

// mostPairs bounds the number of transfers for the comparison of all pairs.
const mostPairs = 1000
