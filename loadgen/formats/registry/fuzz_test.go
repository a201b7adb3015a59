package registry

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// Any file is rejected with an error or becomes a workload. The turns of the workload are linked and have an id for
// each block.
func FuzzRead(f *testing.F) {
	for _, name := range exampleNames(f) {
		if text, err := os.ReadFile(filepath.Join(examples, name)); err == nil {
			f.Add(text, false)
		}
	}
	for _, c := range badRows() {
		f.Add([]byte(c.text), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, skip bool) {
		o := formats.Options{LeftOpen: formats.LeftOpen{TokensPerByte: 0.25, DAG: "chain", OutputTokens: 3, ZeroOutput: "one"}}
		if skip {
			o.KeepGoing = true
		}
		if len(text) > 1<<14 {
			return
		}
		tasks := o
		tasks.DAG, tasks.Tasks = "", true
		if w, err := Read(bytes.NewReader(text), "f", tasks); err == nil {
			checkWorkload(t, w)
			if w.Graph != nil && len(w.Graph.First) != len(w.Turns)+1 {
				t.Errorf("waits of %d turns, want %d", len(w.Graph.First)-1, len(w.Turns))
			}
		}
		w, err := Read(bytes.NewReader(text), "f", o)
		if err != nil {
			if len(err.Error()) < 4 {
				t.Errorf("%q is no complaint", err)
			}
			return
		}
		checkWorkload(t, w)
	})
}

func checkWorkload(t *testing.T, w *loadgen.Workload) {
	turns := 0
	for i, s := range w.Sessions {
		for n := s.First; n >= 0; n = w.Turns[n].Next {
			if int(w.Turns[n].Session) != i {
				t.Fatalf("turn %d is of session %d, and in %d", n, w.Turns[n].Session, i)
			}
			turns++
		}
	}
	if turns != len(w.Turns) || turns == 0 {
		t.Errorf("%d turns in sessions, %d in all", turns, len(w.Turns))
	}
	for i := range w.Turns {
		u := &w.Turns[i]
		if int(u.Input) > len(u.IDs)*w.TraceBlock || u.Input < 0 || u.Output < 0 || math.IsNaN(float64(u.Delay)) || u.Delay < 0 {
			t.Errorf("turn %d is %+v with blocks of %d", i, *u, w.TraceBlock)
		}
	}
}

// No rows are read after a fatal error.
func TestFatalErrors(t *testing.T) {
	long := append(bytes.Repeat([]byte(" "), scan.MaxLine+9), '\n')
	_, err := collected(moon+"\n"+string(long)+moon, formats.Options{KeepGoing: true})
	if !scan.IsFatal(err) {
		t.Errorf("%v, want a fatal error", err)
	}
}

// No input causes a panic. Errors contain the name of the file.
func FuzzTrace(f *testing.F) {
	for _, seed := range []string{
		twoSessions, unsorted, agent, "",
		`["s",1e-3,null,10,2,[1],null,7]`,
		`{"x":[{"y":"\ud83d\ude00\\"},-1.5e+30,null],"timestamp":0.1,"output_length":1,"hash_ids":[18446744073709551615]}`,
		"{\"session_id\":\"request_2\",\"output_length\":1,\"hash_ids\":[]}\r\n\u2028\n{\"delay_ms\":5,\"output_tokens\":1,\"hash_ids\":[1]}",
	} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(7))
	}
	f.Fuzz(func(t *testing.T, text []byte, how uint8) {
		o := formats.Options{Format: formats.Mooncake, TraceBlock: 16, Compat: how&1 != 0}
		if how&2 != 0 {
			o.Format, o.SharedRatio, o.Groups = formats.Agentic, 0.5, 2
		}
		w, err := Read(bytes.NewReader(text), day, o)
		if err != nil {
			if syntax := (*loadgen.SyntaxError)(nil); !errors.As(err, &syntax) || !strings.HasPrefix(err.Error(), day) {
				t.Fatalf("error %v is a %T, want a *loadgen.SyntaxError that names the file", err, err)
			}
			return
		}
		checkLinks(t, w)
	})
}

func BenchmarkReadMooncake(b *testing.B) {
	for _, path := range []string{"traces/mooncake_conversation.jsonl", "../../../testdata/traces/short.jsonl"} {
		b.Run(path[strings.LastIndexByte(path, '/')+1:], func(b *testing.B) {
			if !strings.HasPrefix(path, "..") {
				path = optional.Data(b, path)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(bytes.NewReader(text), path, formats.Options{Format: formats.Mooncake, TraceBlock: 512}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
