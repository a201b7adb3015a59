package machines

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Sizes of the printed passes.
const (
	shownRequests = 32
	shownLength   = 4096
	shownPrompt   = 2048
)

// passPart is an operator of a pass, as JSON has it.
type passPart struct {
	Name   string  `json:"name"`
	Calls  float64 `json:"calls"`
	Ms     float64 `json:"ms"`
	Source string  `json:"source"`
}

// passTimes is a pass and what it consists of.
type passTimes struct {
	Pass  string     `json:"pass"`
	Ms    float64    `json:"ms"` // with the time of the host
	Parts []passPart `json:"parts"`
}

// composePasses returns a pass that decodes and one that computes a prompt.
func composePasses(f *hardware.Fit) ([]passTimes, error) {
	c, err := timing.NewComposer(f)
	if err != nil {
		return nil, err
	}
	fix := silicon.CorrectionsOf(timing.SplitEngine(f.Engine))
	decode := append(append(c.Linear(shownRequests, false), c.Head(shownRequests)...), c.Decode(shownRequests, shownLength)...)
	prompt := append(append(c.Linear(shownPrompt, true), c.Head(1)...), c.Prompts(1, shownPrompt, 0)...)
	slower := float64((fix.Prompts - 1) * silicon.Sum(prompt))
	return []passTimes{
		newPassTimes(fmt.Sprintf("decoding %d requests of %d tokens", shownRequests, shownLength), decode, 0, fix.Base+float64(shownRequests*fix.Request)),
		newPassTimes(fmt.Sprintf("a prompt of %d tokens", shownPrompt), prompt, slower, fix.Base+fix.Request),
	}, nil
}

// newPassTimes returns a pass of operators, of launches that are no graphs, and of the host.
func newPassTimes(name string, parts []silicon.Part, launches, host float64) passTimes {
	p := passTimes{Pass: name, Ms: silicon.Sum(parts) + launches + host}
	for i := range parts {
		x := &parts[i]
		p.Parts = append(p.Parts, passPart{x.Name, x.Calls, x.Ms(), x.Source()})
	}
	if launches > 0 {
		p.Parts = append(p.Parts, passPart{"launches", 1, launches, "fitted to servers"})
	}
	p.Parts = append(p.Parts, passPart{"host", 1, host, "fitted to servers"})
	return p
}

// writePasses writes a table for each pass of a fit.
func writePasses(out io.Writer, r *fitRow) error {
	for _, p := range r.Passes {
		fmt.Fprintf(out, "\n%s with --tp %d, %s: %.3f ms\n", r.GPU, r.TP, p.Pass, p.Ms)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "  PART\tCALLS\tMS\tSOURCE")
		for _, x := range p.Parts {
			fmt.Fprintf(w, "  %s\t%.4g\t%.3f\t%s\n", x.Name, x.Calls, x.Ms, x.Source)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// addPasses composes the passes of rows, if they are asked for.
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

// needOneFit refuses passes of several fits.
func needOneFit(f *fitFlags) error {
	if f.passes && f.Text("gpu") == "" {
		return cli.Usagef("--passes: want --gpu, since a pass is of one GPU")
	}
	return nil
}
