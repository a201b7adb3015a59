package formats

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/replay-llm/replay/loadgen"
)

// Whatever is in a file, it is refused in words or becomes a workload whose
// turns are linked and have an id for each block.
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
		o := Options{LeftOpen: LeftOpen{TokensPerByte: 0.25, DAG: "chain", OutputTokens: 3, ZeroOutput: "one"}}
		if skip {
			o.KeepGoing = true
		}
		if len(text) > 1<<14 {
			return
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

// Rows after a fatal error are not read.
func TestFatalErrors(t *testing.T) {
	long := append(bytes.Repeat([]byte(" "), maxLine+9), '\n')
	_, err := collected(moon+"\n"+string(long)+moon, Options{KeepGoing: true})
	var fatal *fatalError
	if !errors.As(err, &fatal) {
		t.Errorf("%v, want a fatal error", err)
	}
}
