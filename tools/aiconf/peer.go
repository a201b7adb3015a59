package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// errNoPeer reports that aiconfigurator is not installed.
var errNoPeer = errors.New("aiconfigurator is not installed (pip install aiconfigurator==0.12.0)")

// resultFile contains the best configurations of aiconfigurator, below the directory of an experiment.
const resultFile = "best_config_topn.csv"

// writeExperiments returns the experiment file of a question. The file has one experiment for one pool. For each
// tensor parallelism it has two experiments for prefill and decode pools, with and without aiconfigurator's factors.
func (q *question) writeExperiments() string {
	var b strings.Builder
	fmt.Fprintf(&b, "agg:\n  serving_mode: agg\n  model_path: %s\n  system_name: %s_sxm\n  backend_name: vllm\n", q.checkpoint, q.gpu)
	q.writeLimits(&b)
	writeCandidates(&b, "agg", q.tps)
	for _, tp := range q.tps {
		if len(q.splits(tp)) == 0 {
			continue
		}
		for _, kind := range []string{"disagg", "plain"} {
			fmt.Fprintf(&b, "%s%d:\n  serving_mode: disagg\n", kind, tp)
			q.writeLimits(&b)
			for _, role := range []string{"prefill", "decode"} {
				fmt.Fprintf(&b, "  %[1]s_model_path: %[2]s\n  %[1]s_system_name: %[3]s_sxm\n  %[1]s_backend_name: vllm\n", role, q.checkpoint, q.gpu)
				writeCandidates(&b, role, []int{tp})
			}
			if kind == "plain" {
				for _, factor := range []string{
					"prefill_latency_correction", "decode_latency_correction", "rate_match_prefill_degradation", "rate_match_decode_degradation", "autoscale_ttft_correction_factor",
				} {
					fmt.Fprintf(&b, "  %s: 1.0\n", factor)
				}
			}
		}
	}
	return b.String()
}

func (q *question) writeLimits(b *strings.Builder) {
	fmt.Fprintf(b, "  total_gpus: %d\n  isl: %d\n  osl: %d\n  ttft: %d.0\n  tpot: %d.0\n", q.gpus, q.input, q.output, q.ttft, q.tpot)
}

// writeCandidates writes the allowed parallelism of a role. Only tensor parallelism is allowed, also for experts.
func writeCandidates(b *strings.Builder, role string, tps []int) {
	list := strings.ReplaceAll(fmt.Sprint(tps), " ", ", ")
	for _, kind := range []string{"num_gpu", "tp", "moe_tp"} {
		fmt.Fprintf(b, "  %s_%s_candidates: %s\n", role, kind, list)
	}
	for _, kind := range []string{"pp", "dp", "moe_ep"} {
		fmt.Fprintf(b, "  %s_%s_candidates: [1]\n", role, kind)
	}
}

// runPeer returns the answer of aiconfigurator with its factors for two pools, and the answer without them.
func runPeer(ctx context.Context, q *question, program, dir string) (a, plain *answer, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	file := filepath.Join(dir, "questions.yaml")
	if err := os.WriteFile(file, []byte(q.writeExperiments()), 0o600); err != nil {
		return nil, nil, err
	}
	var text bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "cli", "exp", "--yaml-path", file, "--save-dir", filepath.Join(dir, "out"), "--top-n", "40", "--no-color", "--log-level", "ERROR")
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w\n%s", program, err, &text)
	}
	a, plain = newAnswer(), newAnswer()
	err = filepath.WalkDir(filepath.Join(dir, "out"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != resultFile {
			return err
		}
		rows, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		experiment := filepath.Base(filepath.Dir(path))
		into := a.one
		switch strings.TrimRight(experiment, "0123456789") {
		case "disagg":
			into = a.two
		case "plain":
			into = plain.two
		}
		return q.readResults(rows, into)
	})
	if err == nil && len(a.one)+len(a.two) == 0 {
		err = fmt.Errorf("%s has no results: %s", program, &text)
	}
	plain.one = a.one
	return a, plain, err
}

// readResults reads the configurations of an experiment. For each tensor parallelism readResults keeps the best
// configuration within the limits.
func (q *question) readResults(text []byte, into map[int]rate) error {
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) == 0 {
		return err
	}
	head := rows[0]
	for _, row := range rows[1:] {
		var bad error
		number := func(name string) float64 {
			i := slices.Index(head, name)
			if i < 0 {
				bad = errors.Join(bad, fmt.Errorf("%s has no column %s", resultFile, name))
				return 0
			}
			v, err := strconv.ParseFloat(row[i], 64)
			bad = errors.Join(bad, err)
			return v
		}
		r := rate{tokens: number("tokens/s/gpu_cluster")}
		ttft, tpot := number("ttft"), number("tpot")
		var tp float64
		if slices.Contains(head, "tp") {
			tp = number("tp")
		} else {
			tp = number("(d)tp")
			r.split = fmt.Sprintf("%.0f+%.0f", number("(p)workers"), number("(d)workers"))
		}
		if bad != nil {
			return bad
		}
		if ttft <= float64(q.ttft) && tpot <= float64(q.tpot) {
			keepBest(into, int(tp), r)
		}
	}
	return nil
}
