package policy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/internal/peer"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// asBatcher is the environment variable that turns this test into a program that decides on batches.
const asBatcher = "REPLAY_TEST_BATCHER"

func TestMain(m *testing.M) {
	if os.Getenv(asBatcher) == "" {
		os.Exit(m.Run())
	}
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	_, _ = lines.ReadSlice('\n')
	fmt.Println(`{"version":1,"batch":true,"facts":["request.blocks","cached_blocks","kv_usage","waiting"]}`)
	var answer []byte
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		answer = append(answer[:0], '[')
		for range (bytes.Count(line, []byte("[")) - 1) / 5 {
			answer = append(answer, "3,"...)
		}
		answer[len(answer)-1] = ']'
		os.Stdout.Write(append(answer, '\n'))
	}
}

// BenchmarkProcess measures a decision of a program. The programs are the examples, which read two facts of each of
// eight workers (Python) or three facts (Go and Rust), and a program that gets 16 decisions at a time. Between two
// decisions, the facts of one worker change.
func BenchmarkProcess(b *testing.B) {
	dir, bin := "../../examples/policy-process/", b.TempDir()
	for name, program := range map[string]struct {
		build []string
		run   string
	}{
		"go":     {[]string{"go", "build", "-o", filepath.Join(bin, "picker"), dir + "go"}, filepath.Join(bin, "picker")},
		"python": {nil, "python3 " + dir + "python/policy.py"},
		"rust":   {[]string{"rustc", "-O", "-o", filepath.Join(bin, "policy"), dir + "rust/policy.rs"}, filepath.Join(bin, "policy")},
		"batch":  {nil, asBatcher + "=1 " + os.Args[0]},
	} {
		b.Run(name, func(b *testing.B) {
			switch name {
			case "python":
				optional.Python(b)
			case "rust":
				optional.Rust(b)
			}
			if len(program.build) > 0 {
				if out, err := exec.CommandContext(context.Background(), program.build[0], program.build[1:]...).CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
			}
			ask, err := peer.Start(context.Background(), peer.Options{Name: "program", Command: program.run, Timeout: time.Minute, Stderr: os.Stderr})
			if err != nil {
				b.Fatal(err)
			}
			defer ask.Kill()
			benchProcess(b, ask)
		})
	}
}

func benchProcess(b *testing.B, ask Asker) {
	tree := prompt.NewTree(16, 16, prompt.Options{})
	p, err := NewProcess(ask, Options{Tree: tree, BlockTokens: 16, Workers: make([]Worker, 8)})
	if err != nil {
		b.Fatal(err)
	}
	q := &sim.Request{InputTokens: 1500, Prompt: tree.Add([]uint64{1, 2, 3}, 48)}
	c := &router.Candidates{
		Workers: []sim.WorkerID{0, 1, 2, 3, 4, 5, 6, 7}, Running: []int32{9, 12, 8, 10, 11, 9, 9, 14}, Overlap: []int32{0, 64, 12, 0, 0, 93, 12, 12},
		Tokens: []int64{0, 1021, 7000, 0, 12, 512, 911, 0}, Metrics: []router.Metrics{{KV: 0.31}, {KV: 0.472, Waiting: 3}, {KV: 0.1188}, {KV: 0.9013}, {KV: 0.5}, {KV: 0.7103}, {KV: 0.44, Waiting: 1}, {KV: 0.613}},
	}
	together, _ := p.(router.Batcher)
	n := 1
	if together != nil {
		n = 16
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += n {
		w := i % len(c.Workers) // the worker with changed facts
		c.Overlap[w] = int32(i % 94)
		c.Metrics[w] = router.Metrics{KV: float64(i%9973) / 9973, Waiting: int32(i % 5)}
		if together != nil {
			together.Clear()
			for range n {
				together.Add(q, c)
			}
			together.Decide()
		}
		for range n {
			if choice := p.Choose(q, c); choice.Worker == router.None {
				b.Fatal(p.(router.Fallible).Err())
			}
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

// BenchmarkProcessLine measures the part of a decision outside the program: writing the line.
func BenchmarkProcessLine(b *testing.B) { benchProcess(b, &always{worker: []byte("3")}) }

// always is a program that answers with a greeting, then always with the same worker.
type always struct {
	greeted bool
	worker  []byte
}

func (a *always) Ask([]byte) ([]byte, error) {
	if !a.greeted {
		a.greeted = true
		return []byte(`{"version":1,"facts":["request.blocks","cached_blocks","kv_usage","waiting"]}`), nil
	}
	return a.worker, nil
}

func (a *always) Refuse(_ []byte, want string) error { return errors.New(want) }
