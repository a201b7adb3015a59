package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/budget"
)

// checking holds the flags of replay check.
type checking struct {
	update    bool
	junit     string
	markdown  string
	github    bool
	out, line string // where to keep the run that the file names, and its timeline
	form      cli.Choice
}

func (c *checking) bindFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.update, "update", false, "write the values of the run as the baseline")
	fs.StringVar(&c.junit, "junit", "", "also write the result to `FILE` as JUnit XML")
	fs.StringVar(&c.markdown, "markdown", "", "also append the result to `FILE` as a Markdown table")
	fs.StringVar(&c.out, "out", "", "write the run of the file to a new `DIR`, like --out of replay trace")
	fs.StringVar(&c.line, "timeline", "", "write the timeline of all workers to `FILE`, for Perfetto")
	fs.BoolVar(&c.github, "github", false, "also print GitHub annotations (default if GITHUB_ACTIONS is true)")
	cli.BindForm(fs, &c.form)
}

// NewCheckCommand returns the command check, which compares a run with budgets.
func NewCheckCommand(s cli.Streams) *cobra.Command {
	c := &checking{}
	cmd := &cobra.Command{
		Use:   "check BUDGETS [RUN]",
		Short: "Compare a run with budgets, for CI",
		Long: `Compare a run with the budgets in a YAML file, relative to the baseline in that
file. RUN is a directory made with --out, or a report file; without it, the
command line that the file names is run.

  run: trace requests.jsonl --workers 8 --router kv
  budgets:
    p99_ttft_ms: +2%             # may rise by at most 2 %, any fall is accepted
    output_throughput_tok_s: -1% # may fall by at most 1 %
    mean_itl_ms: +0.5            # in its own unit
    completed_requests: exact
    max_e2e_latency_ms: max 30000

replay check BUDGETS --update writes the baseline. The exit code is 0 when all
budgets hold, 5 when one is exceeded, 7 when all hold and routing or scheduling
changed (behaviour: free in the file allows that), and 1 when a file is wrong
or the run fails. docs/command-line.md has more.`,
		Example: `  replay check budgets.yaml --update
  replay check budgets.yaml
  replay check budgets.yaml --out out/run --timeline timeline.json
  replay check budgets.yaml out/a --junit junit.xml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return cli.Usagef("%d arguments: must be a file of budgets, and perhaps a run", len(args))
			}
			for _, name := range []string{"out", "timeline"} {
				if len(args) > 1 && cmd.Flags().Changed(name) {
					return cli.Usagef("--%s requires the run that %s names, without %s", name, args[0], args[1])
				}
			}
			c.github = c.github || os.Getenv("GITHUB_ACTIONS") == "true"
			return c.checkRun(cmd.Context(), s, args)
		},
	}
	cli.BindOwn(cmd, c.bindFlags)
	return cmd
}

func (c *checking) checkRun(ctx context.Context, s cli.Streams, args []string) error {
	file, err := readBudgets(args[0])
	if err != nil {
		return err
	}
	run, err := c.run(ctx, s, file, args[1:])
	if err != nil {
		return err
	}
	if c.update {
		if err := file.Update(run); err != nil {
			return err
		}
		if c.form.Value == "json" {
			return cli.WriteJSON(s.Out, map[string]any{"baseline_saved_to": file.Path})
		}
		_, err := fmt.Fprintf(s.Out, "Saved the baseline to: %s\n", file.Path)
		return err
	}
	outcome, err := file.Judge(run)
	if err != nil {
		return err
	}
	return c.printOutcome(s, outcome)
}

// run loads the given run, or runs the command line of the budget file.
func (c *checking) run(ctx context.Context, s cli.Streams, file *budget.File, given []string) (*budget.Run, error) {
	if len(given) > 0 {
		return budget.Load(given[0])
	}
	if len(file.Command) == 0 {
		return nil, fmt.Errorf("%s: has no run, requires one in the file or on the command line", file.Path)
	}
	if kind := file.Command[0]; kind != "trace" && kind != "concurrency" {
		return nil, excerpt.Errorf("%s: run begins with %q, expected trace or concurrency", file.Path, kind)
	}
	out := c.out
	if _, err := os.Lstat(out); out != "" && err == nil {
		return nil, fmt.Errorf("--out: %s exists, must be a new path", out)
	}
	if out == "" {
		dir, err := os.MkdirTemp("", "replay-check-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		out = filepath.Join(dir, "run")
	}
	args := append(slices.Clone(file.Command), "--out", out)
	if c.line != "" {
		args = append(args, "--timeline", c.line)
	}
	quiet := cli.Streams{Program: s.Program, In: s.In, Out: io.Discard, Err: s.Err, Args: args}
	if err := quiet.Execute(ctx, args); err != nil && !missedOnly(err) {
		return nil, fmt.Errorf("%s: run: %w", file.Path, err)
	}
	run, err := budget.Load(out)
	if err == nil {
		run.Name = "the run"
	}
	return run, err
}

// missedOnly reports whether a run completed and missed its objectives. A run that missed its objectives is no error
// of check, which judges only budgets.
func missedOnly(err error) bool {
	var own *cli.CodedError
	return errors.As(err, &own) && own.Code == cli.ExitObjective
}

// printOutcome prints the outcome in all requested forms, and returns the exit code of check.
func (c *checking) printOutcome(s cli.Streams, outcome *budget.Outcome) error {
	path := outcome.File.Path
	if c.junit != "" {
		if err := collector.WriteFile(c.junit, outcome.WriteJUnit); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	assumed := runs.AssumptionsOf(outcome.Run.Report)
	if c.markdown != "" {
		write := func(w io.Writer) error {
			return cmp.Or(outcome.WriteMarkdown(w), runs.WriteAssumptionsMarkdown(w, assumed))
		}
		if err := appendTo(c.markdown, write); err != nil {
			return fmt.Errorf("--markdown: %w", err)
		}
	}
	write, notes := func(w io.Writer) error {
		return cmp.Or(outcome.WriteText(w), runs.PrintAssumptions(w, assumed))
	}, s.Out
	if c.form.Value == "json" {
		document := outcome.Document()
		document.Assumptions = runs.AssumptionsByKey(assumed)
		write, notes = func(w io.Writer) error { return cli.WriteJSON(w, document) }, s.Err // GitHub reads both
	}
	if err := write(s.Out); err != nil {
		return err
	}
	if c.github {
		if err := outcome.WriteGitHub(notes, pathInRepository(path)); err != nil {
			return err
		}
	}
	if n := outcome.Exceeded(); n > 0 {
		return cli.Coded(cli.ExitBudget, "%s: %d of %d budgets exceeded", path, n, len(outcome.Lines))
	}
	if !outcome.Behaves() {
		return cli.Coded(cli.ExitBehaviour, "%s: all budgets hold, and requests went other ways than in the baseline", path)
	}
	return nil
}

// appendTo calls write to append to the file at path.
func appendTo(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// pathInRepository returns path relative to the root of the repository, as GitHub requires it. The workflow may run
// in a folder of the repository.
func pathInRepository(path string) string {
	root := os.Getenv("GITHUB_WORKSPACE")
	whole, err := filepath.Abs(path)
	if root == "" || err != nil {
		return path
	}
	if rel, err := filepath.Rel(root, whole); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}
