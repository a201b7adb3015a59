package formats_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/sim"
)

// listSteps returns the requests, warnings and errors of a source in order. processors is the value of GOMAXPROCS.
func listSteps(t *testing.T, text string, o formats.Options, window float64, processors, most int) (steps []string) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	o.Bad = func(err error) { steps = append(steps, "bad: "+err.Error()) }
	o.Warn = func(text string) { steps = append(steps, "warning: "+text) }
	s, err := registry.NewStream(strings.NewReader(text), "f", o)
	if err != nil {
		t.Fatal(err)
	}
	from, err := s.Source(window)
	if err != nil {
		return append(steps, err.Error())
	}
	defer from.Close()
	var in loadgen.Incoming
	for range most {
		if err := from.Next(&in); err != nil {
			return append(steps, err.Error(), fmt.Sprint(from.Dropped()))
		}
		steps = append(steps, fmt.Sprint(in, from.Dropped()))
	}
	return steps
}

// A source that is read ahead returns the same requests, errors, warnings and counts in the same order as the plain
// source, even if it is closed early.
func TestReadAhead(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor")
	}
	r := sim.NewRand(3, "ahead")
	for round := range 60 {
		n := 1 + r.IntN(1500)
		broken, skips := r.IntN(2*n), round%3 == 1
		o := formats.Options{TraceBlock: 512, LeftOpen: formats.LeftOpen{ZeroOutput: "drop"}}
		var rows strings.Builder
		if skips {
			o.SkipBad = 1000
			rows.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens\n")
		}
		for i := range n {
			at, output := 10*i+r.IntN(15), r.IntN(20)
			switch {
			case skips && r.IntN(50) == 0:
				rows.WriteString("2023-11-16 18:17:00.1,x,y\n")
			case skips:
				fmt.Fprintf(&rows, "2023-11-16 18:%02d:%02d.%03d,600,%d\n", at/60000, at/1000%60, at%1000, output)
			case i == broken:
				rows.WriteString("{broken\n")
			default:
				fmt.Fprintf(&rows, `{"timestamp":%d,"input_length":600,"output_length":%d,"hash_ids":[%d,%d]}`+"\n", at, output, r.IntN(5), 5+i)
			}
		}
		most := n + 1
		if round%5 == 0 {
			most = 1 + r.IntN(n)
		}
		plain, ahead := listSteps(t, rows.String(), o, 15, 1, most), listSteps(t, rows.String(), o, 15, 2, most)
		if !slices.Equal(plain, ahead) {
			t.Fatalf("round %d, %d rows: %d steps plainly, %d ahead\n%v\n%v", round, n, len(plain), len(ahead), plain[max(0, len(plain)-3):], ahead[max(0, len(ahead)-3):])
		}
	}
}
