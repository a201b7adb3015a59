package engines

import (
	"fmt"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/timing"
)

// KindOf returns the kind of server for an engine with pass times by measured operators.
func KindOf(a *engineargs.Args) (accuracy.Kind, error) {
	account, err := a.PassTimes.Account()
	if err != nil {
		return accuracy.Kind{}, err
	}
	return kindOf(account), nil
}

// kindOf returns the kind of server of an account.
func kindOf(c *timing.Account) accuracy.Kind {
	k := accuracy.Kind{Engine: c.Engine.String(), Family: c.Fit.Model.Family, Generation: c.Generation, GPUs: accuracy.OneGPU, Shape: accuracy.Dense}
	p := c.Fit.Precision()
	k.Weights = string(p.Dense)
	if c.Fit.Model.MoE != nil {
		k.Shape, k.Weights = accuracy.WithExperts, string(p.Experts)
	}
	if c.Fit.GPUs() > 1 {
		k.GPUs = accuracy.SeveralGPUs
	}
	if c.Fit.DP > 1 {
		k.Ranks = accuracy.SeveralRanks
	}
	return k
}

// BandOf returns the errors on servers similar to an engine with pass times by measured operators. ok is false for
// other pass times.
func BandOf(a *engineargs.Args) (b accuracy.Band, ok bool) {
	k, err := KindOf(a)
	if err != nil {
		return b, false
	}
	e, err := accuracy.Load()
	if err != nil {
		return b, false
	}
	return e.BandOf(k)
}

// describeMeasured describes pass times by measured operators: the GPU and engine release, the number of shapes that
// were not measured, and the errors on published servers of the kind.
func describeMeasured(a *engineargs.Args) string {
	c, err := a.PassTimes.Account()
	if err != nil {
		return err.Error()
	}
	text := "measured operators of " + c.Fit.GPU.Name
	switch {
	case c.Donor:
		text += ", scaled from another GPU by data sheets"
	case c.Release != "":
		text += fmt.Sprintf(" (%s %s)", accuracy.NameEngine(c.Engine.String()), c.Release)
	default:
		text += " (of other engines)"
	}
	text += fmt.Sprintf(", %d of %d shapes interpolated", c.Shapes.Interpolated, c.Shapes.All)
	if n := c.Shapes.Filled; n > 0 {
		text += fmt.Sprintf(" and %d by data sheets", n)
	}
	if b, ok := BandOf(a); ok {
		of := "of this kind"
		if b.Kind != kindOf(c) {
			of = fmt.Sprintf("of the nearest kind (%v)", b.Kind)
		}
		text += fmt.Sprintf("; on %d servers %s mean TPOT was %s off", b.Rows, of, b.Range())
		if m := &c.Fit.Model; b.Family == "" && (m.Indexer != nil || m.Linear != nil) {
			text += fmt.Sprintf("; no server of the family of %s was measured", m.Name)
		}
	}
	if c.Fit.PP > 1 {
		text += "; the stages of --pp are kept full"
	}
	return text
}
