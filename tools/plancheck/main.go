// Command plancheck compares the search of replay plan with exhaustive plans. The questions differ in model, GPU,
// objectives and trace. For each question, every choice of settings is planned in full. The search must find the best
// choice, or a choice with at most one more worker, with few replays.
//
//	go run ./tools/plancheck          40 questions; takes a quarter of an hour
//	go run ./tools/plancheck -n 2     two of them, as .ci/run has it
//	go run ./tools/plancheck -calibrate 200
//
// plancheck also plans one question for prefill and decode workers with a tensor parallelism for each pool. For this
// question, the search must find as few GPUs as the exhaustive plan.
//
// The tool prints a line for each question and the costs of both. A cost is a number of replayed requests. A replay
// of a part of the workload counts only the requests of this part. The exit code is 1 if the search missed a
// question. The exit code is also 1 if the search replayed more than 5 % of the requests of the exhaustive plans over
// all 40 questions.
//
// With -keep, the answers of exhaustive plans are stored in a directory and reused, for changes of the search alone.
// With -calibrate, plancheck plans synthetic systems with a known truth instead. The exit code is then 1 if plans at
// 90 % hold for less than 85 % or more than 95 % of new workloads. For few systems, two standard errors are added.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/tools/stopwatch"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("plancheck", flag.ContinueOnError)
	fs.SetOutput(stderr)
	n := fs.Int("n", len(listQuestions()), "number of questions")
	systems := fs.Int("calibrate", 0, "plan `N` systems of which the truth is known, instead of questions")
	binary := fs.String("binary", "", "replay binary; empty: build it")
	keep := fs.String("keep", "", "`directory` that keeps the answers of exhaustive plans; empty: none is kept")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	var missed int
	var err error
	if *systems > 0 {
		var ok bool
		if ok, err = checkCalibration(*systems, *binary, stdout); !ok {
			missed = 1
		}
	} else {
		missed, err = checkQuestions(*n, *binary, *keep, stdout)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "plancheck:", err)
		return 2
	case missed > 0:
		return 1
	}
	return 0
}

// question is the input of a plan.
type question struct {
	model, gpu, slo, trace string
}

// listQuestions returns ten models on GPUs that they fit on, each with two objectives and two traces.
func listQuestions() []question {
	var all []question
	for _, goal := range []string{"p99:ttft=1s,p99:itl=50ms", "p99:ttft=2s,p99:tpot=40ms"} {
		for _, trace := range []string{"chat-hour", "prefix_tree"} {
			for _, on := range [][2]string{
				{"llama-3.1-8b", "h100"}, {"llama-3.1-8b", "l40s"}, {"qwen3-14b", "a100"}, {"qwen3-32b", "h100"}, {"llama-3.1-70b", "h200"},
				{"mixtral-8x7b", "h100"}, {"qwen3-30b-a3b", "h200"}, {"gpt-oss-120b", "b200"}, {"gemma-3-27b", "h100"}, {"mistral-small-24b", "h200"},
			} {
				all = append(all, question{on[0], on[1], goal, trace})
			}
		}
	}
	return all
}

// listSpeedups returns the speed-ups of the traces, which make clusters of several workers necessary.
func listSpeedups() map[string]string {
	return map[string]string{"chat-hour": "20", "prefix_tree": "6"}
}

// mostRequests is the maximum number of requests of a trace, since the exhaustive plans take thousands of replays.
const mostRequests = 400

// flags returns the flags of both plans. The number of seats is fixed, since the search ties seats to small budgets.
func (q *question) flags(dir string) []string {
	return []string{
		"plan", filepath.Join(dir, q.trace+".jsonl"), "--speedup", listSpeedups()[q.trace], "--slo", q.slo, "--gpu", q.gpu, "--model", q.model, "--max-num-seqs", "256", "--max-workers", "32",
		"--resamples", "6", "--confidence", "0.8", "--front=false", "--output", "json",
	}
}

// Values of the varied settings, equal to those of the search. Expert parallelism is not varied.
const (
	parallel = "1,2,4,8"
	budgets  = "256,512,1024,2048,8192,16384"
	routers  = "round_robin,kv"
)

// Values for each of two pools, for one of the questions.
const (
	poolParallel = "1,2,4"
	poolBudgets  = "2048,8192"
)

// hasPools reports whether the question is also planned for two pools. The best pools differ in tensor parallelism.
func (q *question) hasPools() bool {
	return q.model == "llama-3.1-8b" && q.gpu == "h100" && q.trace == "chat-hour" && q.slo == "p99:ttft=2s,p99:tpot=40ms"
}

// answer contains the used part of a plan.
type answer struct {
	Found    bool
	Replays  int
	Requests int `json:"requests_replayed"`
	Best     *struct {
		Settings  string
		Resamples int
		Confident *struct {
			Found          bool
			GPUs           int
			Met            int `json:"resamples_met"`
			Workers        int
			PrefillWorkers int `json:"prefill_workers"`
			DecodeWorkers  int `json:"decode_workers"`
		}
	}
	Search *struct {
		Replays  int
		Requests int `json:"requests_replayed"`
	}
}

// cost is the work of a plan: the number of replays and of their requests.
type cost struct{ replays, requests int }

// cost returns the work of the plan and its search.
func (a *answer) cost() cost {
	c := cost{a.Replays, a.Requests}
	if a.Search != nil {
		c.replays += a.Search.Replays
		c.requests += a.Search.Requests
	}
	return c
}

func (c *cost) add(d cost) {
	c.replays += d.replays
	c.requests += d.requests
}

// gpus returns the GPUs of the recommended cluster and the GPUs of one of its workers; 0: no recommendation.
func (a *answer) gpus() (all, worker int) {
	if a.Best == nil || a.Best.Confident == nil || !a.Best.Confident.Found {
		return 0, 0
	}
	c := a.Best.Confident
	return c.GPUs, c.GPUs / max(1, c.Workers+c.PrefillWorkers+c.DecodeWorkers)
}

// checkQuestions plans the questions, and returns how many the search missed.
func checkQuestions(n int, binary, keep string, out io.Writer) (missed int, err error) {
	dir, err := os.MkdirTemp("", "plancheck")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	for trace := range listSpeedups() {
		if err := copyHead(filepath.Join(dir, trace+".jsonl"), filepath.Join("testdata", "traces", trace+".jsonl")); err != nil {
			return 0, err
		}
	}
	if binary, err = stopwatch.Find(context.Background(), binary, dir); err != nil {
		return 0, err
	}
	all := listQuestions()
	stride := max(1, len(all)/max(1, n))
	total := 0
	var exhaustive, searched cost
	fmt.Fprintln(out, "model | GPU | objectives | trace | best GPUs | search's | its choice | replays: exhaustive, search | requests: exhaustive, search")
	for i := 0; i < len(all) && total < n; i += stride {
		total++
		q := all[i]
		c, err := q.check(binary, dir, keep)
		if err != nil {
			return missed, fmt.Errorf("%s: %w", strings.Join(q.flags(dir), " "), err)
		}
		if !c.ok {
			missed++
			c.line += " | MISSED"
		}
		exhaustive.add(c.exhaustive)
		searched.add(c.searched)
		fmt.Fprintln(out, c.line)
		if !q.hasPools() {
			continue
		}
		if c, err = q.checkPools(binary, dir); err != nil {
			return missed, err
		}
		if !c.ok {
			missed++
			c.line += " | MISSED"
		}
		fmt.Fprintln(out, c.line)
	}
	fmt.Fprintf(out, "%d of %d questions: the search finds the best cluster, or one of a worker more\n", total-missed, total)
	text, ok := judgeCost(exhaustive, searched, total == len(all))
	fmt.Fprintln(out, text)
	if !ok {
		missed++
	}
	return missed, nil
}

// mostCost is the maximum share of requests that the search may replay, relative to the exhaustive plans.
const mostCost = 0.05

// judgeCost returns lines with the cost of the search. judgeCost reports whether the cost is within the limit, which
// applies only to all questions.
func judgeCost(exhaustive, searched cost, whole bool) (text string, ok bool) {
	share := func(a, b int) float64 { return float64(a) / float64(max(1, b)) }
	replayed := share(searched.requests, exhaustive.requests)
	text = fmt.Sprintf("%d of %d replays, whole or of a stretch: %.1f%%\n", searched.replays, exhaustive.replays, 100*share(searched.replays, exhaustive.replays))
	text += fmt.Sprintf("%d of %d requests replayed (a replay of a stretch has the requests of the stretch): the search costs %.1f%% of the exhaustive plans", searched.requests, exhaustive.requests, 100*replayed)
	switch {
	case !whole:
		return text + fmt.Sprintf("; at most %.0f%% is required of all questions together", 100*mostCost), true
	case replayed > mostCost:
		return text + fmt.Sprintf(", must be at most %.0f%% | MISSED", 100*mostCost), false
	}
	return text + fmt.Sprintf(", must be at most %.0f%%", 100*mostCost), true
}

// checked is a question that was planned in both ways.
type checked struct {
	ok                   bool // the search found the best cluster, or one with one more worker
	line                 string
	exhaustive, searched cost
}

// check plans a question in both ways.
func (q *question) check(binary, dir, keep string) (c checked, err error) {
	whole, err := q.planWhole(binary, keep, append(q.flags(dir), "--vary", "none", "--topology", "both", "--try", "tp="+parallel, "--try", "max-num-batched-tokens="+budgets, "--try", "router="+routers))
	if err != nil {
		return c, err
	}
	found, err := runPlan(binary, append(q.flags(dir), "--time-budget", "0"))
	if err != nil {
		return c, err
	}
	best, _ := whole.gpus()
	got, worker := found.gpus()
	c.exhaustive, c.searched = whole.cost(), found.cost()
	name := "none"
	if found.Best != nil {
		name = found.Best.Settings
	}
	c.ok = got <= best+worker && (got > 0) == (best > 0)
	c.line = fmt.Sprintf("%s | %s | %s | %s | %d | %d | %s | %d, %d | %d, %d", q.model, q.gpu, q.slo, q.trace, best, got, name,
		c.exhaustive.replays, c.searched.replays, c.exhaustive.requests, c.searched.requests)
	return c, nil
}

// checkPools plans prefill and decode workers in both ways, with a tensor parallelism for each pool. The search must
// find as few GPUs. The costs are not added to the totals, since they belong to a different question.
func (q *question) checkPools(binary, dir string) (c checked, err error) {
	two := slices.Clip(append(q.flags(dir), "--topology", "disaggregated"))
	whole, err := runPlan(binary, append(two, "--vary", "none", "--try", "prefill-tp="+poolParallel, "--try", "decode-tp="+poolParallel, "--try", "max-num-batched-tokens="+poolBudgets))
	if err != nil {
		return c, err
	}
	found, err := runPlan(binary, append(two, "--time-budget", "0"))
	if err != nil {
		return c, err
	}
	best, _ := whole.gpus()
	got, _ := found.gpus()
	name := "none"
	if found.Best != nil {
		name = found.Best.Settings
	}
	c.exhaustive, c.searched = whole.cost(), found.cost()
	c.ok = best > 0 && got > 0 && got <= best
	c.line = fmt.Sprintf("%s | %s | %s | %s, two pools | %d | %d | %s | %d, %d | %d, %d", q.model, q.gpu, q.slo, q.trace, best, got, name,
		c.exhaustive.replays, c.searched.replays, c.exhaustive.requests, c.searched.requests)
	return c, nil
}

// planWhole runs an exhaustive plan, unless its answer is stored.
func (q *question) planWhole(binary, keep string, args []string) (*answer, error) {
	if keep == "" {
		return runPlan(binary, args)
	}
	name := strings.NewReplacer(":", "-", "=", "-", ",", "-").Replace(strings.Join([]string{q.model, q.gpu, q.trace, q.slo}, " ")) + ".json"
	path := filepath.Join(keep, name)
	a := &answer{}
	if text, err := os.ReadFile(path); err == nil {
		return a, json.Unmarshal(text, a)
	}
	a, err := runPlan(binary, args)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	return a, errors.Join(os.MkdirAll(keep, 0o755), os.WriteFile(path, text, 0o600))
}

// runPlan runs a plan. A plan without a result is an answer too.
func runPlan(binary string, args []string) (*answer, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == cli.ExitObjective && out.Len() > 0 {
		err = nil // no cluster meets the objectives
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, &errs)
	}
	a := &answer{}
	return a, json.Unmarshal(out.Bytes(), a)
}

// copyHead copies the first requests of a trace.
func copyHead(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	lines := bytes.SplitAfterN(text, []byte("\n"), mostRequests+1)
	return os.WriteFile(to, bytes.Join(lines[:min(len(lines), mostRequests)], nil), 0o600)
}
