package runs

import (
	"context"
	"io"
	"runtime"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/plan/regret"
	"github.com/replay-llm/replay/report/rundir"
)

// mostRegretted is the maximum number of decisions that are printed below a report.
const mostRegretted = 5

// studyRegret computes the results of alternative choices of the router if --regret is set.
func (r *run) studyRegret(ctx context.Context) (err error) {
	out := &r.o.Outputs
	if !out.Regret.Wanted {
		return nil
	}
	cli.ManyReplays()
	bar := cli.NewProgress(r.s.Err, "other choices")
	defer bar.Clear()
	r.regret, err = regret.Find(ctx, &r.spec, r.workload, regret.Options{
		Sample: out.Regret.Sample, Horizon: out.Regret.Horizon.At, Cores: runtime.GOMAXPROCS(0), Progress: bar.Show,
	})
	if err != nil {
		return err
	}
	r.result.Report.Add(r.regret.Fields()...)
	r.lines = append(r.lines, r.regret.Lines(mostRegretted)...)
	return nil
}

// regretFile returns the file of a run directory with the results of alternative choices.
func (r *run) regretFile() rundir.File {
	return rundir.File{Name: regret.FileName, Write: func(w io.Writer) error { return r.regret.Write(w, r.workload) }}
}
