// Command aiconf answers questions with NVIDIA's aiconfigurator and with replay plan, and compares the rankings of both.
//
//	python3 -m venv .venv && .venv/bin/pip install aiconfigurator==0.12.0
//	go run ./tools/aiconf -aiconfigurator .venv/bin/aiconfigurator [-write docs/accuracy.md]
//
// A question has a model, a GPU, fixed lengths of prompts and answers, and limits on TTFT and TPOT. Both programs rank tensor
// parallelism, and one pool against prefill and decode pools, by output tokens a second and GPU within the limits. With -write
// the tables replace those of a document. Without aiconfigurator the tool prints one line and ends with exit code 0.
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
)

// tableName names the tables in a document.
const tableName = "aiconfigurator"

func main() {
	program := flag.String("aiconfigurator", "aiconfigurator", "aiconfigurator's `program`")
	binary := flag.String("binary", "", "replay `binary`; empty: build it")
	write := flag.String("write", "", "replace the tables of this `document`")
	n := flag.Int("n", len(listQuestions()), "`number` of questions")
	jobs := flag.Int("jobs", runtime.NumCPU(), "`questions` at once")
	flag.Parse()
	err := run(os.Stdout, *program, *binary, *write, min(*n, len(listQuestions())), *jobs)
	if errors.Is(err, errNoPeer) {
		fmt.Fprintln(os.Stderr, "aiconf: skipped:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "aiconf:", err)
		os.Exit(1)
	}
}

// run answers questions, prints the tables, and writes them where a document is given.
func run(out io.Writer, program, binary, document string, n, jobs int) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w: %w", errNoPeer, err)
	}
	dir, err := os.MkdirTemp("", "aiconf")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if binary == "" {
		binary = filepath.Join(dir, "replay")
		if text, err := exec.Command("go", "build", "-o", binary, "./cmd/replay").CombinedOutput(); err != nil {
			return fmt.Errorf("building replay: %w\n%s", err, text)
		}
	}
	all := make([]comparison, n)
	err = plan.Each(context.Background(), n, jobs, func(ctx context.Context, i int) error {
		c, err := compareAnswers(ctx, listQuestions()[i], program, binary, filepath.Join(dir, strconv.Itoa(i)))
		all[i] = c
		return err
	})
	if err != nil {
		return err
	}
	table := formatTables(all)
	fmt.Fprint(out, table)
	switch {
	case document == "":
		return nil
	case n < len(listQuestions()):
		return fmt.Errorf("%s is not written: that requires all %d questions", document, len(listQuestions()))
	}
	return accuracy.ReplaceTables(document, map[string]string{tableName: table})
}
