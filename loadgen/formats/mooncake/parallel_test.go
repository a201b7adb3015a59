package mooncake

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/replay-llm/replay/loadgen/formats"
)

// Several goroutines return the same workload or the same error as one goroutine. The files have valid and invalid
// rows with sessions and classes. The size of the parts is random.
func TestParallelEqualsOne(t *testing.T) {
	failed := 0
	for trial := range 1500 {
		random := rand.New(rand.NewPCG(uint64(trial), 1))
		text := drawRows(random)
		size, threads, broken := 1+random.IntN(len(text)+1), 2+random.IntN(3), random.IntN(10) == 0
		o := formats.Options{Compat: random.IntN(3) == 0, LeftOpen: formats.LeftOpen{ZeroOutput: "one"}}
		read := func(threads int) (w any, told string) {
			var in io.Reader = strings.NewReader(text)
			if broken {
				in = io.MultiReader(in, iotest.ErrReader(errors.New("the disk is gone")))
			}
			o := o
			o.Warn = func(text string) { told += text + "\n" }
			s, err := formats.Start(in, "f.jsonl", int64(len(text)), o)
			if err != nil {
				t.Fatal(err)
			}
			m := newRows(s)
			s.Shape.Raw, s.Chained = true, true
			if err := s.Begin(&m); err != nil {
				t.Fatal(err)
			}
			if threads > 1 {
				m.parallel = parseParallel(s, threads, size)
				defer m.parallel.stop()
			}
			all, err := m.readAll()
			return all, told + fmt.Sprint(err)
		}
		want, wantTold := read(1)
		got, told := read(threads)
		if told != wantTold || !reflect.DeepEqual(got, want) {
			t.Fatalf("trial %d: %d goroutines, parts of %d bytes: %s\n%+v\none goroutine: %s\n%+v\nof\n%s", trial, threads, size, told, got, wantTold, want, text)
		}
		if wantTold != "<nil>" {
			failed++
		}
	}
	if failed < 300 || failed > 1200 {
		t.Errorf("%d of 1500 files have something wrong, want some and not all", failed)
	}
}

// drawRows returns a random file. A few of its rows are invalid.
func drawRows(random *rand.Rand) string {
	var text strings.Builder
	for i := range 1 + random.IntN(60) {
		switch kind := random.IntN(800); kind {
		case 0:
			text.WriteString("{\"timestamp\":}")
		case 1:
			text.WriteString("{\"output_length\":3}")
		case 2:
			text.WriteString("\xff\xfe")
		case 3:
			fmt.Fprintf(&text, `{"timestamp":%d,"input_length":5000,"output_length":7,"hash_ids":[1]}`, i)
		default:
			blocks := 1 + random.IntN(5)
			fmt.Fprintf(&text, `{"timestamp":%d.25,"input_length":%d,"output_length":%d,"hash_ids":[%s]`, i*10, blocks*512-random.IntN(512), random.IntN(9),
				strings.TrimSuffix(strings.Repeat(fmt.Sprint(random.IntN(9), ","), blocks), ","))
			if random.IntN(4) == 0 {
				fmt.Fprintf(&text, `,"session_id":"s%d"`, random.IntN(4))
			}
			if random.IntN(4) == 0 {
				fmt.Fprintf(&text, `,"class":"c%d","priority":%d`, random.IntN(3), random.IntN(4)-2)
			}
			text.WriteString("}")
		}
		text.WriteString([]string{"\n", "\r\n", "\n\n", " \n"}[random.IntN(4)])
	}
	if random.IntN(2) == 0 {
		return strings.TrimRight(text.String(), "\n")
	}
	return text.String()
}
