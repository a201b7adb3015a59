package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
)

// patience is the time limit of a replay that the reference does not finish.
const patience = 10 * time.Second

// checkInProcess replays c on one processor and on eight. checkInProcess returns the differences to the reference and
// between the two runs.
func checkInProcess(ctx context.Context, c *reference.Case) []string {
	spec, err := c.Spec()
	if err != nil {
		return []string{err.Error()}
	}
	if c.Outcome != reference.OK {
		return checkEnds(ctx, &spec)
	}
	var texts [2]string
	var complaints []string
	for i, processors := range []int{1, 8} {
		before := runtime.GOMAXPROCS(processors)
		result, err := spec.Run(ctx, replay.Streams{})
		runtime.GOMAXPROCS(before)
		if err != nil {
			return append(complaints, err.Error())
		}
		if i == 0 {
			complaints = append(compareReport(c, result.Report), compareRequests(c, result)...)
		}
		if texts[i], err = formatResult(result); err != nil {
			return append(complaints, err.Error())
		}
	}
	if texts[0] != texts[1] {
		complaints = append(complaints, "one processor and eight give different reports")
	}
	return complaints
}

// checkEnds checks that the replay ends with a report or an error within the limit.
func checkEnds(ctx context.Context, spec *replay.Spec) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := spec.Run(ctx, replay.Streams{})
	if errors.Is(err, context.DeadlineExceeded) {
		return []string{fmt.Sprintf("no end in %v", patience)}
	}
	return nil
}

// formatResult returns all requests and the report as a JSON file. formatResult omits wall times.
func formatResult(r *harness.Result) (string, error) {
	report := *r.Report
	report.WallMS, report.ProcessedTokensPerS, report.ProcessedOutputPerS = 0, 0, 0
	var b bytes.Buffer
	if err := report.WriteJSON(&b); err != nil {
		return "", err
	}
	for id, request := range r.Collector.Requests() {
		fmt.Fprintf(&b, "%d %+v\n", id, *request)
	}
	return b.String(), nil
}

// compareReport returns the differences between a report and the reference's report.
func compareReport(c *reference.Case, ours *collector.Report) []string {
	theirs, err := c.Report()
	if err != nil {
		return []string{err.Error()}
	}
	return formatDiffs(reference.Compare(theirs, ours))
}

// compareRequests returns the differences between the requests and the reference's requests, if the case has them.
func compareRequests(c *reference.Case, r *harness.Result) []string {
	theirs, kept, err := c.Requests()
	switch {
	case err != nil:
		return []string{err.Error()}
	case !kept:
		return nil
	}
	return formatDiffs(reference.CompareRequests(theirs, reference.Requests(r.Collector)))
}

func formatDiffs(diffs []reference.Diff) []string {
	var out []string
	for _, d := range diffs {
		out = append(out, d.String())
	}
	return out
}

// checkBinary runs the reference's command line with the binary and compares the report.
func checkBinary(ctx context.Context, binary, dir string, c *reference.Case) []string {
	trace, err := c.TracePath()
	if err != nil {
		return []string{err.Error()}
	}
	report := filepath.Join(dir, "report.json")
	args := append(slices.Clone(c.Args), "--compat", "dynamo-1.2", "--report-json", report)
	if trace != "" {
		args = append([]string{trace}, args...)
	}
	if c.Outcome != reference.OK {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return []string{fmt.Sprintf("no end in %v", patience)}
	case c.Outcome != reference.OK:
		return nil
	case err != nil:
		return []string{fmt.Sprintf("%v: %s", err, strings.TrimSpace(string(out)))}
	}
	ours, err := reference.ReadReport(report)
	if err != nil {
		return []string{err.Error()}
	}
	return compareReport(c, ours)
}
