package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/manual"
	"github.com/replay-llm/replay/internal/cmd/programtest"
)

// The tests of both programs pass for this program (replay-live has the same test).
func TestProgram(t *testing.T) {
	t.Run("help", func(t *testing.T) { programtest.CheckHelp(t, root.New) })
	t.Run("tiers", func(t *testing.T) {
		programtest.CheckTiers(t, root.New, "trace", "concurrency", "plan", "bounds", "traces convert", "traces sample")
	})
	t.Run("manual", func(t *testing.T) { programtest.CheckManual(t, root.New) })
	t.Run("reference", func(t *testing.T) {
		if flags := programtest.CheckReference(t, root.New); flags < 400 {
			t.Errorf("%d flags", flags)
		}
	})
	t.Run("libraries", func(t *testing.T) { programtest.CheckLibraries(t, ".") })
}

// The simulator contains no code that talks to other processes. No package that it imports, directly or indirectly,
// imports etcd, NATS, gRPC or OpenTelemetry, or is in the module live.
func TestSimulatorHasNoNetwork(t *testing.T) {
	for name := range programtest.ListPackages(t, ".") {
		for _, stranger := range []string{
			"go.etcd.io/", "github.com/nats-io/", "google.golang.org/grpc", "go.opentelemetry.io/", "github.com/prometheus/", "github.com/replay-llm/replay/live",
		} {
			if strings.HasPrefix(name, stranger) {
				t.Errorf("cmd/replay has %s in it", name)
			}
		}
	}
}

// The shell also completes flags that the help omits.
func TestFlagsAreCompleted(t *testing.T) {
	var out, errs bytes.Buffer
	for _, flag := range []string{"--help-all", "--help", "--router-queue-policy", "--workers", "--tokens-per-byte"} {
		out.Reset()
		if code := run([]string{"__complete", "trace", flag}, nil, &out, &errs); code != 0 || !slices.Contains(strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\t' || r == '\n' }), flag) {
			t.Errorf("completion of %s: exit %d\n%s", flag, code, &out)
		}
	}
}

// The Python types of arguments match the flags: go generate ./cmd/replay/manual writes them.
func TestPythonNamesTheFlags(t *testing.T) {
	want, err := manual.MakePython(root.New(cli.Streams{}, nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../python/src/replay/flags.py")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v; out of date, want what go generate ./cmd/replay/manual writes", err)
	}
	for _, line := range []string{
		"    workers: Union[int, str]\n", "    engine: Literal[\"vllm\", \"sglang\", \"trtllm\"]\n", "    try_: Value\n", "    front: bool\n", "    jobs: int\n",
		"    jobs (number): number of cells that run in parallel; the table does not depend on it\n", "    cluster: Cluster\n",
		"    engine: Union[Literal[\"vllm\", \"sglang\", \"trtllm\"], EngineGroup]\n",
	} {
		if !bytes.Contains(want, []byte(line)) {
			t.Errorf("no %q", line)
		}
	}
}
