package plans

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/cmd/schedules"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
)

// pooling is the deployments that share a pool of GPUs.
type pooling struct {
	traces []string
	gpus   int
}

func (p *pooling) bind(fs *pflag.FlagSet) {
	fs.IntVar(&p.gpus, "gpus", 0, "number of `GPUs` in a pool that several --deployment share, each with one --trace")
	fs.StringArrayVar(&p.traces, "trace", nil, "trace `FILE` of each deployment on the pool of --gpus, in the order of --deployment; repeatable")
}

// isWanted reports whether deployments share a pool of GPUs.
func (p *pooling) isWanted() bool { return p.gpus != 0 || len(p.traces) > 0 }

// deploymentsOf returns the deployments of the command line, and the other settings.
func deploymentsOf(o *options.Options) (paths []string, others []plan.Setting) {
	for _, s := range o.Settings() {
		if s.Name == "deployment" {
			paths = strings.Split(s.Value, ",")
			continue
		}
		others = append(others, s)
	}
	return paths, others
}

// check rejects invalid pools.
func (p *pooling) check(o *options.Options, file string) error {
	if !p.isWanted() {
		return nil
	}
	paths, _ := deploymentsOf(o)
	none := "where no deployments share a pool (--gpus)"
	switch {
	case p.gpus < 1:
		return cli.Usagef("--gpus=%d: must be at least 1 with --trace", p.gpus)
	case file != "":
		return cli.Usagef("--gpus: the trace file %s and deployments with traces are mutually exclusive: --trace names that of each", file)
	case len(paths) < 2:
		return cli.Usagef("--gpus: requires several --deployment, each with its --trace")
	case len(paths) != len(p.traces):
		return cli.Usagef("--trace: %d for %d deployments, must be one for each", len(p.traces), len(paths))
	}
	return o.Check(
		cli.Needs(false, none, "by-hour", "hpa-target", "emit", "emit-dir", "what-if", "survive", "journal", "out", "try"),
		cli.Needs(o.FirstChanged("workers", "prefill-workers", "decode-workers", "max-in-flight") == "", "without a number of workers or of requests in flight", "gpus"),
	)
}

// runPool plans several deployments on one pool.
func (f *planFlags) runPool(ctx context.Context, s cli.Streams, o *options.Options) error {
	cli.ManyReplays()
	paths, others := deploymentsOf(o)
	pool := &schedules.Pool{GPUs: f.pooling.gpus}
	kinds := map[string]string{} // names of GPUs, with a deployment that has them
	for i, path := range paths {
		c, err := f.choosePooled(others, path, f.pooling.traces[i])
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, warning := range append(c.spec.Warnings(), c.overruled...) {
			s.Warn(warning)
		}
		gpu, _ := c.spec.Entry().Engine.PassTimes.Names()
		kinds[gpu] = path
		if len(kinds) > 1 {
			return cli.Usagef("--gpus: deployments on %s: must be on GPUs of one kind, as they share a pool", nameKinds(kinds))
		}
		progress := cli.NewProgress(s.Err, "replays")
		runner, err := newPlanRunner(ctx, newSurroundings(s, progress), f, []chosen{c}, o.Seed)
		if err != nil {
			return fmt.Errorf("%s: %w", path, runs.ExplainError(err))
		}
		own, factor := f.scheduleOf(runner, 0)
		w := plan.Grow(runner.samples[0][0](), f.growth, runner.seed)
		if w.Graph != nil {
			return cli.Usagef("--trace=%s: not supported with requests that wait for more than the turn before them", f.pooling.traces[i])
		}
		err = pool.Add(ctx, own, w, schedules.Member{Name: nameDeployment(path, paths), Trace: f.pooling.traces[i], Factor: factor})
		progress.Clear()
		if err != nil {
			return fmt.Errorf("%s: %w", path, runs.ExplainError(err))
		}
	}
	pool.Share()
	if err := f.writePool(s.Out, pool); err != nil {
		return err
	}
	if text := pool.Refusal(); text != "" {
		return cli.Coded(cli.ExitObjective, "%s", text)
	}
	return nil
}

// nameDeployment returns the name of a deployment's file, without its folder if the name is unique.
func nameDeployment(path string, all []string) string {
	short := func(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }
	for _, other := range all {
		if other != path && short(other) == short(path) {
			return path
		}
	}
	return short(path)
}

// nameKinds describes GPUs with the deployments that have them.
func nameKinds(kinds map[string]string) string {
	var all []string
	for gpu, path := range kinds {
		if gpu == "" {
			gpu = "no GPU by name"
		}
		all = append(all, gpu+" ("+path+")")
	}
	slices.Sort(all)
	return strings.Join(all, " and ")
}

// choosePooled returns the settings of a deployment with its trace.
func (f *planFlags) choosePooled(others []plan.Setting, path, trace string) (chosen, error) {
	own, _, mode, err := options.OptionsOf(append(slices.Clone(others), plan.Setting{Name: "deployment", Value: path}))
	if err != nil {
		return chosen{}, err
	}
	if mode != loadgen.Trace {
		return chosen{}, cli.Usagef("--gpus is not supported with closed loops")
	}
	if err := own.Config.Apply(own); err != nil {
		return chosen{}, err
	}
	c, err := f.tryChoice(own, trace, nil, f.topology.Value == "disaggregated")
	if err == nil {
		err = c.variant.Refused
	}
	c.overruled = append(c.overruled, own.Config.Overruled...)
	return c, err
}

// writePool prints a pool in the requested form.
func (f *planFlags) writePool(w io.Writer, pool *schedules.Pool) error {
	if f.form.Value == "json" {
		return cli.WriteJSON(w, pool.Document())
	}
	sheet := planSheet{flags: f}
	_, err := io.WriteString(w, pool.Format(sheet.wrapText))
	return err
}
