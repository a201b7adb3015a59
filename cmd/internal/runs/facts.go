package runs

import (
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/passes"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/report/series"
)

// facts are what is kept of a run for explanations and for the page: where each
// request's time went, who computed prompts when, and the run over time.
type facts struct {
	book   *ledger.Book
	work   *ledger.Log    // nil without a run directory
	series *series.Series // nil without a run directory
	passes *passes.Log    // nil unless asked for
}

// newFacts prepares for a run that leaves what out says.
func newFacts(spec *replay.Spec, out *options.Outputs) (*facts, error) {
	var engines []*ledger.Engine
	for i := range spec.Pools {
		e, err := ledger.NewEngine(&spec.Pools[i].Engine)
		if err != nil {
			return nil, err
		}
		engines = append(engines, e)
	}
	f := &facts{}
	if out.Dir != "" {
		f.work, f.series = new(ledger.Log), series.New(0)
	}
	if out.Passes {
		f.passes = new(passes.Log)
	}
	f.book = ledger.NewBook(0, f.work, engines...)
	return f, nil
}

// keepsWatch returns those that facts come from.
func (f *facts) keepsWatch() []harness.Observer {
	all := []harness.Observer{f.book}
	if f.series != nil {
		all = append(all, f.series)
	}
	if f.passes != nil {
		all = append(all, f.passes)
	}
	return all
}

// ledgersOf are those of the requests; nil when none are kept.
func (f *facts) ledgersOf() *ledger.Book {
	if f == nil {
		return nil
	}
	return f.book
}

// runFiles are what a run directory holds of it.
func (f *facts) runFiles() []rundir.File {
	all := []rundir.File{
		{Name: series.WorkersFile, Write: f.series.WriteWorkers},
		{Name: series.FileName, Write: f.series.Write},
		{Name: ledger.WorkFile, Write: f.work.Write},
	}
	if f.passes != nil {
		all = append(all, rundir.File{Name: passes.FileName, Write: f.passes.Write})
	}
	return all
}
