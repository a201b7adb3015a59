package records

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	why "github.com/replay-llm/replay/report/explain"
	"github.com/replay-llm/replay/report/failures"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/report/scaling"
	"github.com/replay-llm/replay/report/series"
	"github.com/replay-llm/replay/report/tasks"
	"github.com/replay-llm/replay/scheduler/timing"
)

// NewExplainCommand returns the command explain, which shows how a request of a recorded run spent its time.
func NewExplainCommand(s cli.Streams) *cobra.Command {
	var form cli.Choice
	var event events
	cmd := &cobra.Command{
		Use:   "explain DIR REQUEST...",
		Short: "Show where the time of a request went",
		Long: `Show where the time of requests of a recorded run went, and which requests
delayed them.

DIR is a directory that --out made. A REQUEST is the id of a request, FILE:LINE
or :LINE of the trace, SESSION#TURN, or slowest; "slowest 3" is the three
slowest. docs/explain.md defines the output. Without REQUEST, --fault prints
the cost of a fault (docs/classes.md), --scaling the cost of a scaling action
(docs/autoscaling.md), and --task the critical path of a task
(docs/explain.md).`,
		Example: `  replay explain out/a slowest
  replay explain out/a slowest 3
  replay explain out/a 812
  replay explain out/a requests.jsonl:813
  replay explain out/f --fault 1
  replay explain out/a --scaling 1
  replay explain out/t --task slowest`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch flag := event.flag(cmd); {
			case flag != "" && len(args) == 1:
				return nil
			case flag != "":
				return cli.Usagef("--%s: must be a directory that --out made, and no request", flag)
			case len(args) < 2:
				return cli.Usagef("must be a directory that --out made, and a request or slowest")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			x, err := openExplaining(s, form.Value, args[0])
			if err != nil {
				return err
			}
			switch event.flag(cmd) {
			case "fault":
				err = explainOne(x, failures.Read, (*failures.Study).Find, event.fault, (*failures.Study).WriteText)
			case "scaling":
				err = explainOne(x, scaling.Read, (*scaling.Study).Find, event.scaling, (*scaling.Study).WriteText)
			case "task":
				err = explainOne(x, tasks.Read, (*tasks.Study).Find, event.task, x.writeTask)
			default:
				err = x.explainRequests(args[1:])
			}
			if err != nil || x.form == "json" {
				return err
			}
			return runs.PrintAssumptions(s.Out, x.assumed)
		},
	}
	return cli.BindOwn(cmd, func(fs *pflag.FlagSet) {
		cli.BindForm(fs, &form)
		fs.IntVar(&event.fault, "fault", 0, "`number` of a fault event, from 1: show its cost")
		fs.IntVar(&event.scaling, "scaling", 0, "`number` of a scaling action of the autoscaler, from 1: show its cost")
		fs.StringVar(&event.task, "task", "", "`name` of a task, or slowest: show its critical path")
	})
}

// events are the numbers of the events that are explained instead of requests.
type events struct {
	fault, scaling int
	task           string
}

// flag returns the given flag of an event, "" if there is none.
func (e *events) flag(cmd *cobra.Command) string {
	for _, name := range []string{"fault", "scaling", "task"} {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// explaining is the recorded run that is explained.
type explaining struct {
	out     io.Writer
	form    string
	dir     string
	assumed []engines.Assumption // what the result rests on
}

func openExplaining(s cli.Streams, form, dir string) (*explaining, error) {
	recorded, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	report, err := recorded.Report()
	if err != nil {
		return nil, err
	}
	return &explaining{s.Out, form, dir, runs.AssumptionsOf(report)}, nil
}

// explainOne writes the explanation of one item of a study, by number or name.
func explainOne[S, K, T any](x *explaining, read func(dir string) (S, error), find func(S, K) (T, error), key K, write func(S, io.Writer, T) error) error {
	study, err := read(x.dir)
	if err != nil {
		return err
	}
	found, err := find(study, key)
	if err != nil {
		return fmt.Errorf("%s: %w", x.dir, err)
	}
	if x.form == "json" {
		return cli.WriteJSON(x.out, found)
	}
	return write(study, x.out, found)
}

// writeTask writes the critical path of a task, with the ledgers of its requests.
func (x *explaining) writeTask(_ *tasks.Study, out io.Writer, t *tasks.Task) error {
	run, err := openExplained(x.dir)
	if err != nil {
		return err
	}
	return t.WriteText(out, run.ShortLedger)
}

// explainRequests writes the ledgers of requests.
func (x *explaining) explainRequests(names []string) error {
	run, err := openExplained(x.dir)
	if err != nil {
		return err
	}
	ids, err := chosenRequests(run, names)
	if err != nil {
		return fmt.Errorf("%s: %w", x.dir, err)
	}
	if x.form == "json" {
		all := make([]why.Document, len(ids))
		for i, id := range ids {
			if all[i], err = run.Document(id); err != nil {
				return err
			}
		}
		document := map[string]any{"trace": run.Trace, "requests": all}
		if len(x.assumed) > 0 {
			document[collector.AssumptionsKey] = runs.AssumptionsByKey(x.assumed)
		}
		return cli.WriteJSON(x.out, document)
	}
	for i, id := range ids {
		if i > 0 {
			if _, err := fmt.Fprintln(x.out); err != nil {
				return err
			}
		}
		if err := run.WriteText(x.out, id); err != nil {
			return err
		}
	}
	return nil
}

// openExplained reads the files of a run that explain requires.
func openExplained(dir string) (*why.Run, error) {
	recorded, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	rows, err := recorded.Rows()
	if err != nil {
		return nil, err
	}
	run := &why.Run{Trace: traceOf(recorded), Rows: rows, Times: measuredTimes(recorded.Config)}
	if run.Kinds, err = series.ReadKinds(dir); err != nil {
		return nil, err
	}
	run.Log, err = ledger.ReadLog(filepath.Join(dir, ledger.WorkFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return run, nil
}

// measuredTimes returns the pass times by measured operators in the settings of a run, by stage or kind of worker.
func measuredTimes(all rundir.Settings) map[string]timing.Source {
	times := map[string]timing.Source{}
	for key := range all {
		place, ok := strings.CutSuffix(key, ".profile_path")
		if !ok {
			continue
		}
		source := timing.ParseSource(all.Text(key))
		if source.Form() != timing.Operators || !all.IsZero(place+".speculative.speculation.tokens") || !all.IsZero(place+".sglang.drafts.drafts.tokens") {
			continue
		}
		if kind, ok := strings.CutSuffix(place, ".engine"); ok {
			place = all.Text(kind + ".name")
		}
		times[place] = source
	}
	return times
}

// traceOf returns the name of the trace of a run, or "".
func traceOf(r *rundir.Run) string {
	for _, in := range r.Inputs {
		if in.Role == "trace" {
			return in.Path
		}
	}
	return ""
}

// chosenRequests returns the requests with the given names, in the same order.
func chosenRequests(run *why.Run, names []string) ([]int, error) {
	var ids []int
	for i := 0; i < len(names); i++ {
		if names[i] == "slowest" {
			n := 1
			if i+1 < len(names) {
				if k, err := strconv.Atoi(names[i+1]); err == nil && k > 0 {
					n = k
					i++
				}
			}
			ids = append(ids, run.Slowest(n)...)
			continue
		}
		id, err := run.Find(names[i])
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil, errors.New("no request of the run has finished")
	}
	return ids, nil
}
