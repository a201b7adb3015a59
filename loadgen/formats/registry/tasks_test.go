package registry

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
)

// taskRow returns a row in the format tasks.
func taskRow(id, rest string) string {
	return fmt.Sprintf(`{"id":"%s","input_length":64,"output_length":9,"hash_ids":[1]%s}`, id, rest) + "\n"
}

// readTaskFile reads a file in the format tasks. Random delays in the file are always 40 ms.
func readTaskFile(text string, o formats.Options) (*loadgen.Workload, error) {
	o.Tasks = true
	o.ReadLaw = func(text string) (func(*rand.Rand) float64, error) {
		if text != "forty" {
			return nil, fmt.Errorf("%q: want forty", text)
		}
		return func(*rand.Rand) float64 { return 40 }, nil
	}
	return Read(strings.NewReader(text), "f", o)
}

// showGraph returns the tasks of a workload as text, with a line for each request.
func showGraph(w *loadgen.Workload) string {
	var out strings.Builder
	for i := range w.Turns {
		t := &w.Turns[i]
		fmt.Fprintf(&out, "%s#%d", w.SessionID(int(t.Session)), t.Index)
		if at := float64(w.Graph.Arrival[i]); !math.IsNaN(at) && len(w.Graph.WaitsOf(int32(i))) == 0 {
			fmt.Fprintf(&out, " at %v", at)
		}
		for _, wait := range w.Graph.WaitsOf(int32(i)) {
			sign := "+"
			if wait.Start {
				sign = ">"
			}
			fmt.Fprintf(&out, " %d%s%v", wait.For, sign, float64(wait.Delay))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// Requests connected by dependencies or by a session name form a task. A row without after waits for the previous row
// of its session. Delays are numbers or random.
func TestTasks(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a join, in any order",
			taskRow("j", `,"after":["a",{"id":"b","delay_ms":5}],"delay_ms":1`) + taskRow("a", `,"timestamp":100`) + taskRow("b", `,"timestamp":130`) + taskRow("c", `,"timestamp":90,"after":[]`),
			"request_2#0 at 10\nrequest_2#1 at 40\nrequest_2#2 0+1 1+5\nrequest_4#0 at 0\n"},
		{"a session and one that it starts",
			taskRow("a", `,"timestamp":0,"session_id":"s"`) + taskRow("b", `,"session_id":"s","delay_ms":7`) + taskRow("x", `,"after":[{"id":"a","start":true}]`) + taskRow("c", `,"session_id":"s","after":["b","x"]`),
			"s#0 at 0\ns#1 0+7\ns#2 0>0\ns#3 1+0 2+0\n"},
		{"a law, for both at once and for one",
			taskRow("a", `,"timestamp":0`) + taskRow("b", `,"after":["a"],"delay_ms":"forty"`) + taskRow("c", `,"after":[{"id":"a","delay_ms":"forty"},"b"]`),
			"request_1#0 at 0\nrequest_1#1 0+40\nrequest_1#2 0+40 1+0\n"},
		{"two roots of one name",
			taskRow("a", `,"timestamp":5,"session_id":"s"`) + taskRow("b", `,"timestamp":3,"session_id":"s","after":[]`),
			"s#0 at 2\ns#1 at 0\n"},
	} {
		w, err := readTaskFile(c.text, formats.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := showGraph(w); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.name, got, c.want)
		}
	}
}

// A failed call is repeated. With a failure rate of one half, calls are made twice on average. The repetitions depend
// only on the seed.
func TestToolsFail(t *testing.T) {
	var text strings.Builder
	text.WriteString(taskRow("a", `,"timestamp":0`))
	for i := range 1000 {
		text.WriteString(taskRow(fmt.Sprint("b", i), `,"after":["a"],"delay_ms":"forty","fails":0.5`))
	}
	sums := map[uint64]float64{}
	for _, seed := range []uint64{1, 1, 2} {
		w, err := readTaskFile(text.String(), formats.Options{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, wait := range w.Graph.Waits {
			sum += float64(wait.Delay)
		}
		if before, again := sums[seed]; again && before != sum {
			t.Errorf("seed %d: %v ms, then %v", seed, before, sum)
		}
		if sums[seed] = sum; math.Abs(sum/40000-2) > 0.2 {
			t.Errorf("seed %d: %v calls each, want 2", seed, sum/40000)
		}
	}
	if sums[1] == sums[2] {
		t.Error("both seeds draw the same")
	}
}

// Each error contains the line, the value and the requirement.
func TestBadTasks(t *testing.T) {
	a := taskRow("a", `,"timestamp":0,"after":[]`)
	for _, c := range []struct{ text, want string }{
		{a + taskRow("a", ""), "f:2: id a was on line 1, must be unique"},
		{a + taskRow("", ""), "f:2: id is missing, must be a string that is not empty"},
		{a + taskRow("b", `,"after":["c"]`), "f:2: after names c, which is not in the file, must be a request of it"},
		{a + taskRow("b", `,"after":["b"]`), "f:2: requests b wait for each other, must be no cycle"},
		{a + taskRow("b", `,"after":["c","a"]`) + taskRow("c", `,"after":["b"]`), "f:2: requests b, c wait for each other, must be no cycle"},
		{a + taskRow("b", `,"after":["a","a"]`), "f:2: after names a twice, must be given once"},
		{a + taskRow("b", `,"after":"a"`), `f:2: after is "a", must be a list`},
		{a + taskRow("b", `,"after":["a"],"delay_ms":-1`), "f:2: delay_ms is -1, must be finite and >= 0"},
		{a + taskRow("b", `,"after":["a"],"delay_ms":"fifty"`), `f:2: delay_ms: "fifty": want forty`},
		{a + taskRow("b", `,"after":["a"],"fails":1`), "f:2: fails is 1, must be 0 to 0.99"},
		{a + taskRow("b", `,"after":[{"delay_ms":1}]`), "f:2: after[0].id is missing, must be the id of a request"},
		{a + taskRow("b", `,"after":[{"id":"a","start":1}]`), "f:2: after[0].start is 1, must be true or false"},
		{a + taskRow("b", `,"delay_ms":5`), "f:2: delay_ms is given, but the request waits for no other; must be a timestamp, or after"},
		{a + taskRow("b", `,"timestamp":1,"session_id":"s"`) + taskRow("c", `,"timestamp":2,"session_id":"s"`), "f:3: timestamp is given, but session s has begun, must be delay_ms, or after"},
		{a + taskRow("b", `,"priority":3000000000`), "f:2: priority is 3000000000, must be a whole number of 32 bits"},
		{strings.Repeat(`{"timestamp":0,"input_length":64,"output_length":9,"hash_ids":[1]}`+"\n", 30) + a, "f:31: the row names what it waits for (after), and those before it have no id; must be an id in each, and --trace-format tasks"},
	} {
		if _, err := readTaskFile(c.text, formats.Options{}); err == nil || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

// Graphs in other formats become tasks only if chains are not sufficient.
func TestOtherFormatsAsTasks(t *testing.T) {
	node := func(id, rest string) string {
		return fmt.Sprintf(`{"request_id":"%s","play_id":"p","session_id":"m","input_length":64,"output_length":9,"hash_ids":[1],"not_before_ms":0%s}`, id, rest) + "\n"
	}
	edge := func(id string) string {
		return fmt.Sprintf(`{"request_id":"%s","trigger":"completion","delay_ms":3,"relation":"sequence"}`, id)
	}
	chain := v2 + "\n" + node("a", "") + node("b", `,"dependencies":[`+edge("a")+`]`)
	fork := chain + node("c", `,"dependencies":[`+edge("a")+`]`)
	for _, c := range []struct {
		text, dag string
		want      string // "" means chains
	}{
		{chain, "", ""}, {chain, "graph", "p#0 at 0\np#1 0+3\n"}, {fork, "", "p#0 at 0\np#1 0+3\np#2 0+3\n"}, {fork, "chain", ""},
	} {
		w, err := readTaskFile(c.text, formats.Options{LeftOpen: formats.LeftOpen{DAG: c.dag}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if w.Graph != nil {
			got = showGraph(w)
		}
		if got != c.want {
			t.Errorf("--dag %s:\n%swant\n%s", c.dag, got, c.want)
		}
	}
	if _, err := readTaskFile(fork, formats.Options{LeftOpen: formats.LeftOpen{DAG: "refuse"}}); err == nil {
		t.Error("refuse: no error")
	}
}
