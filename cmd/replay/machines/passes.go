package machines

import (
	"fmt"
	"io"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Sizes of the printed passes.
const (
	shownRequests = 32
	shownLength   = 4096
	shownPrompt   = 2048
)

// passTimes is a pass with the times of its parts.
type passTimes struct {
	Pass  string            `json:"pass"`
	Ms    float64           `json:"ms"` // of all parts
	Parts []timing.PassPart `json:"parts"`
}

// composePasses returns a decode pass and a prefill pass.
func composePasses(f *hardware.Fit) ([]passTimes, error) {
	c, err := timing.Compose(f)
	if err != nil {
		return nil, err
	}
	all := []passTimes{
		{Pass: fmt.Sprintf("decoding %d requests of %d tokens", shownRequests, shownLength), Parts: c.Decode(shownRequests, shownLength)},
		{Pass: fmt.Sprintf("a prompt of %d tokens", shownPrompt), Parts: c.Prompts(1, shownPrompt, 0)},
	}
	for i := range all {
		for _, x := range all[i].Parts {
			all[i].Ms += x.Ms
		}
	}
	return all, nil
}

// writePasses writes a table for each pass of a fit.
func writePasses(out io.Writer, r *fitRow) error {
	for _, p := range r.Passes {
		t := table.NewLeft("PART", "CALLS", "MS", "SOURCE")
		for _, x := range p.Parts {
			t.Add(x.Name, fmt.Sprintf("%.4g", x.Calls), formatFixed(x.Ms, 3), x.Source)
		}
		if _, err := fmt.Fprintf(out, "\n%s with --tp %d, %s: %.3f ms\n%s", r.GPU, r.TP, p.Pass, p.Ms, t.Text()); err != nil {
			return err
		}
	}
	return nil
}

// addPasses adds the passes of rows, if --passes is set.
func (f *fitFlags) addPasses(rows []fitRow, fit hardware.Fit) (err error) {
	for i := range rows {
		if r := &rows[i]; f.passes && r.Fits {
			fit.TP = r.TP
			if r.Passes, err = composePasses(&fit); err != nil {
				return err
			}
		}
	}
	return nil
}

// needOneFit rejects --passes with several fits.
func needOneFit(f *fitFlags) error {
	if f.passes && f.Text("gpu") == "" {
		return cli.Usagef("--passes requires --gpu, since a pass is of one GPU")
	}
	return nil
}
