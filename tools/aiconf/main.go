// Command aiconf compares the rankings of NVIDIA's aiconfigurator and of replay plan for a list of questions.
//
//	python3 -m venv .venv && .venv/bin/pip install aiconfigurator==0.12.0
//	go run ./tools/aiconf -aiconfigurator .venv/bin/aiconfigurator [-write internal/accuracy/tables.txt]
//
// A question has a model, a GPU, fixed lengths of prompts and answers, and limits on TTFT and TPOT. aiconfigurator
// and replay plan rank tensor parallelisms, and compare one pool with prefill and decode pools. The rate is output
// tokens per second and GPU within the limits. With -write the tables replace the tables of a document. Without
// aiconfigurator, the tool prints one line and ends with exit code 0.
//
// Read questions.go, peer.go (aiconfigurator), own.go (replay plan), compare.go, then main.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/tools/stopwatch"
)

// tableName is the name of the tables in a document.
const tableName = "aiconfigurator"

// settings are the flags.
type settings struct {
	program, binary, document string
	questions, jobs           int
}

func main() {
	var s settings
	flag.StringVar(&s.program, "aiconfigurator", "aiconfigurator", "aiconfigurator's `program`")
	flag.StringVar(&s.binary, "binary", "", "replay `binary`; empty: build it")
	flag.StringVar(&s.document, "write", "", "replace the tables of this `document`")
	flag.IntVar(&s.questions, "n", len(listQuestions()), "`number` of questions")
	flag.IntVar(&s.jobs, "jobs", runtime.NumCPU(), "`questions` at once")
	flag.Parse()
	err := s.run(os.Stdout)
	if errors.Is(err, errNoPeer) {
		fmt.Fprintln(os.Stderr, "aiconf: skipped:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "aiconf:", err)
		os.Exit(1)
	}
}

// run answers the questions, prints the tables, and writes them into a document if one is given.
func (s *settings) run(out io.Writer) error {
	if _, err := exec.LookPath(s.program); err != nil {
		return fmt.Errorf("%w: %w", errNoPeer, err)
	}
	dir, err := os.MkdirTemp("", "aiconf")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if s.binary, err = stopwatch.Find(context.Background(), s.binary, dir); err != nil {
		return err
	}
	all := make([]comparison, min(s.questions, len(listQuestions())))
	err = plan.Each(context.Background(), len(all), s.jobs, func(ctx context.Context, i int) error {
		c, err := compareAnswers(ctx, listQuestions()[i], s.program, s.binary, filepath.Join(dir, strconv.Itoa(i)))
		all[i] = c
		return err
	})
	if err != nil {
		return err
	}
	table := formatTables(all)
	fmt.Fprint(out, table)
	switch {
	case s.document == "":
		return nil
	case len(all) < len(listQuestions()):
		return fmt.Errorf("%s is not written: that requires all %d questions", s.document, len(listQuestions()))
	}
	return accuracy.ReplaceTables(s.document, map[string]string{tableName: table})
}
