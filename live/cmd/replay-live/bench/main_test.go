// Package bench measures the cost of tokens and requests on servers without a model. The servers are replay-live
// vllm, replay-live's frontend with a worker behind etcd and NATS, a plain fake in FastAPI, and guidellm's mock
// server.
//
// The cost is the processor time of all processes of a server, without the client. Read main_test.go,
// servers_test.go, load_test.go, stamps_test.go.
package bench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == stampRole {
		if err := serveStamps(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Flags of the benchmark, after -args.
var (
	measure = flag.Bool("measure", false, "run the benchmark")
	python  = flag.String("python", "", "a Python with fastapi, uvicorn and guidellm; without one their rows are left out")
	program = flag.String("replay-live", "", "the `program` to measure; without it one is built")
	streams = flag.Int("streams", 200, "streams at once")
	tokens  = flag.Int("tokens", 300, "tokens of each")
	unary   = flag.Int("unary", 4000, "unary requests, 64 at once")
	stamped = flag.Int("stamped", 500, "concurrent streams with the time of creation in each token; 0: none")
	only    = flag.String("only", "", "measure the server of this `name` alone: vllm, frontend, fastapi or guidellm")
)

// TestBench runs the benchmark and prints a table, with -measure.
func TestBench(t *testing.T) {
	if !*measure {
		t.Skip("measures only with -measure: make bench-live")
	}
	o := &options{python: *python, program: *program, only: *only, streams: *streams, tokens: *tokens, unary: *unary, stamped: *stamped}
	if err := run(t.Context(), os.Stdout, o); err != nil {
		t.Fatal(err)
	}
}

// options are the flags of the benchmark.
type options struct {
	python, program, only           string
	streams, tokens, unary, stamped int
}

// run measures each server and prints the table.
func run(ctx context.Context, w io.Writer, o *options) error {
	dir, err := os.MkdirTemp("", "benchlive")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.program == "" {
		o.program = filepath.Join(dir, "replay-live")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.program, "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	fmt.Fprintf(w, "%d streams of %d tokens at once, %d unary requests of 4 tokens, 64 at once; %d processors\n\n", o.streams, o.tokens, o.unary, runtime.NumCPU())
	fmt.Fprintln(w, "| Server | Tokens per CPU-second, one every 10 ms | as fast as it can | Unary requests per CPU-second |\n| --- | --- | --- | --- |")
	for _, k := range listKinds() {
		if o.only != "" && o.only != k.name {
			continue
		}
		row, err := measureServer(ctx, o, &k)
		if err != nil {
			row = "not measured: " + err.Error() + " | | "
		}
		fmt.Fprintf(w, "| %s | %s |\n", k.title, row)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if o.stamped == 0 || o.only != "" {
		return nil
	}
	p50, p99, err := measureStamps(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nFrom a worker's token to its event at the client, %d streams of 20 tokens a second at once, all processes on one machine: %.3f ms p50, %.3f ms p99\n",
		o.stamped, p50.Seconds()*1e3, p99.Seconds()*1e3)
	return nil
}

// measureServer starts a server with slow and with fast tokens, and returns its row of the table.
func measureServer(ctx context.Context, o *options, k *kind) (string, error) {
	paced, _, err := measureOnce(ctx, o, k, false)
	if err != nil {
		return "", err
	}
	flat, unary, err := measureOnce(ctx, o, k, true)
	return fmt.Sprintf("%.0f | %.0f | %.0f", paced, flat, unary), err
}

// measureOnce starts a server and measures it. If flat is set, the server generates tokens at full speed, otherwise
// one token every 10 ms per request. measureOnce returns tokens and requests per second of processor time.
func measureOnce(ctx context.Context, o *options, k *kind, flat bool) (tokens, requests float64, err error) {
	s, err := startServer(ctx, o, k, flat)
	if err != nil {
		return 0, 0, err
	}
	defer s.stop()
	if _, err := s.stream(ctx, 8, 20); err != nil { // a warm-up of 8 streams
		return 0, 0, err
	}
	before := s.cpu()
	n, err := s.stream(ctx, o.streams, o.tokens)
	if err != nil {
		return 0, 0, err
	}
	tokens = float64(n) / (s.cpu() - before).Seconds()
	if !flat {
		return tokens, 0, nil
	}
	if err := s.unary(ctx, 64, 64); err != nil {
		return 0, 0, err
	}
	before = s.cpu()
	err = s.unary(ctx, o.unary, 64)
	return tokens, float64(o.unary) / (s.cpu() - before).Seconds(), err
}

// clockTick is the unit of processor time in /proc.
const clockTick = 10 * time.Millisecond
