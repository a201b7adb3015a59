// Command benchscale replays more requests than fit in memory. `replay generate` generates a week of code and chat
// traffic, and `replay trace --stream` reads it from a pipe.
//
//	go run ./tools/benchscale                         44 million requests on 256 workers, 10 million on 1,000
//	go run ./tools/benchscale -requests 1e6           fewer, on both
//	go run ./tools/benchscale -rules                  by vLLM's own rules, on H100s
//	go run ./tools/benchscale -equal 1e7              the report of a trace that is kept is the same
//
// The command prints requests, workers, microseconds and MiB. The measurements are for the process that replays,
// without the process that generates. Read main.go, then equal.go.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/tools/stopwatch"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "benchscale: %v\n", err)
		os.Exit(1)
	}
}

// bench contains the settings of a measurement.
type bench struct {
	binary   string
	requests int
	rate     float64 // requests per second
	rules    bool    // vLLM's rules on H100s
	quantile string
	out      io.Writer
}

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	fs := flag.NewFlagSet("benchscale", flag.ContinueOnError)
	fs.SetOutput(errs)
	b := bench{out: out}
	fs.StringVar(&b.binary, "binary", "", "replay binary; empty: build it")
	requests := fs.Float64("requests", 44e6, "requests on the fewest workers; on more workers, 10 million at most")
	workers := fs.String("workers", "256,1000", "numbers of workers")
	fs.Float64Var(&b.rate, "rate", 73, "requests a second, for every 256 workers: 44 million in a week")
	fs.BoolVar(&b.rules, "rules", false, "by vLLM's own rules, on H100s")
	fs.StringVar(&b.quantile, "quantiles", "sketch", "sketch or exact")
	equal := fs.Float64("equal", 0, "compare with as many requests that are kept, instead")
	if err := fs.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "benchscale")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if b.binary, err = stopwatch.Find(ctx, b.binary, dir); err != nil {
		return err
	}
	counts, err := readCounts(*workers)
	if err != nil {
		return err
	}
	if *equal > 0 {
		b.requests = int(*equal)
		return b.compare(ctx, dir, counts[0])
	}
	fmt.Fprintf(out, "%12s %8s %10s %10s %12s %8s\n", "requests", "workers", "wall s", "us/request", "us CPU/req.", "MiB")
	for i, n := range counts {
		if b.requests = int(*requests); i > 0 {
			b.requests = min(b.requests, 10e6)
		}
		if err := b.measure(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func readCounts(list string) (counts []int, err error) {
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-workers: %q, expected whole numbers > 0", text)
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// traffic returns the arguments that generate b.requests requests. Six in ten are chat requests, with the lengths of
// Azure's public conversation traces. Four in ten are code requests, with the lengths of Azure's code completions.
func (b *bench) traffic(workers int) []string {
	return []string{
		"generate", "--seed", "1", "--requests", strconv.Itoa(b.requests), "--rate", strconv.FormatFloat(b.rate*float64(workers)/256, 'f', -1, 64),
		"--class", "chat:weight=0.6;input=lognormal:mean=1100,sigma=1;output=lognormal:mean=210,sigma=0.8;prefix=groups:count=50,tokens=512",
		"--class", "code:weight=0.4;input=lognormal:mean=2050,sigma=0.9;output=lognormal:mean=28,sigma=0.9;prefix=system:tokens=512",
	}
}

// cluster returns the arguments that replay a trace.
func (b *bench) cluster(trace string, workers int) []string {
	args := []string{"trace", trace, "--workers", strconv.Itoa(workers), "--router", "kv", "--output", "json"}
	if b.rules {
		args = append(args, "--gpu", "h100", "--model", "llama-3.1-8b")
	}
	return args
}

// measure replays the traffic during its generation, and prints time and memory.
func (b *bench) measure(ctx context.Context, workers int) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	source := exec.CommandContext(ctx, b.binary, b.traffic(workers)...)
	source.Stdout = write
	replay := exec.CommandContext(ctx, b.binary, append(b.cluster("-", workers), "--stream", "--quantiles", b.quantile)...)
	var sourceErrs, errs bytes.Buffer
	replay.Stdin, replay.Stdout, replay.Stderr, source.Stderr = read, io.Discard, &errs, &sourceErrs
	started := time.Now()
	if err := source.Start(); err != nil {
		return errors.Join(err, read.Close(), write.Close())
	}
	err = replay.Start()
	err = errors.Join(err, read.Close(), write.Close()) // both processes have copies
	if err == nil {
		err = replay.Wait()
	}
	wall := time.Since(started)
	if ended := source.Wait(); err == nil {
		err = ended
	}
	if err != nil {
		return fmt.Errorf("%w\n%s%s", err, &sourceErrs, &errs)
	}
	state, n := replay.ProcessState, float64(b.requests)
	_, err = fmt.Fprintf(b.out, "%12d %8d %10.1f %10.2f %12.2f %8s\n", b.requests, workers, wall.Seconds(),
		float64(wall.Microseconds())/n, float64((state.UserTime()+state.SystemTime()).Microseconds())/n, peakMemory(state))
	return err
}
