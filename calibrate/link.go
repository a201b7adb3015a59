package calibrate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Transfers is the link that was fitted to the KV transfers of a pair of prefill and decode servers.
type Transfers struct {
	Run   string       `json:"run"`
	Link  *timing.Link `json:"kv_transfer"`
	Notes []string     `json:"notes"` // what was assumed
}

// FitTransfers fits the link between prefill and decode servers to what was measured of their
// transfers in a directory. Settings by the keys of meta.json are for what the directory does not tell.
func FitTransfers(dir string, known map[string]any) (*Transfers, error) {
	s, err := readServer(dir, known)
	if errors.Is(err, fs.ErrNotExist) {
		t := tree{}
		t.fill(known)
		s, err = newSettings(t), nil
	}
	if err != nil {
		return nil, err
	}
	perToken, err := s.transferBytes()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	all, err := readTransfers(dir, perToken)
	if err != nil {
		return nil, err
	}
	link, err := all.fit(perToken, s.TensorParallel)
	if err == nil {
		err = s.checkLink(link)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &Transfers{dir, link, all.notes}, nil
}

// checkLink refuses a link that is faster than what a worker's GPUs are connected by.
func (s *Settings) checkLink(l *timing.Link) error {
	gpu, err := hardware.FindGPU(s.GPU, nil)
	if err != nil {
		return nil // nobody knows what it can
	}
	f := hardware.Fit{GPU: gpu, TP: max(s.TensorParallel, 1), PP: 1}
	if most := max(f.NetworkGBPerSecond(), gpu.Link*float64(f.TP)); l.GBPerSecond*overClock > most {
		return fmt.Errorf("transfers at %.4g GB/s, want at most the %.4g GB/s of the links of %d %s: were some blocks there before?", l.GBPerSecond, most, f.TP, gpu.Name)
	}
	return nil
}

// transferBytes returns the KV cache of a token in bytes, by the data sheet of the server's model.
func (s *Settings) transferBytes() (int, error) {
	model, err := findModel(s.Model)
	if err != nil {
		return 0, fmt.Errorf("the KV cache of a token is as large as the model makes it, want it in the run or with --model: %w", err)
	}
	f := s.fitOf(hardware.GPU{}, model)
	return f.TransferBytes(), nil
}

// AddTransfers makes the link of transfers a part of the profile.
func (r *Result) AddTransfers(t *Transfers) {
	r.Profile.Link = t.Link
	r.Notes = append(r.Notes, t.Notes...)
}

// Servers returns what is known of the servers of a run, by the keys of meta.json.
func (m *Measured) Servers() map[string]any { return m.Settings.tellOthers() }

// WriteText writes t for people to read.
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

// describeLink returns a link in words.
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
