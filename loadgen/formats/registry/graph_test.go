package registry

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
	"github.com/replay-llm/replay/loadgen/formats/write"
)

// asGraph reads a trace as a graph and writes it as agentic_mooncake. rows are the written rows without header,
// prompts and models.
func asGraph(t *testing.T, text string, o formats.Options) (rows []string, whole string, lost int) {
	t.Helper()
	o.Graph = true
	s, err := NewStream(strings.NewReader(text), "f", o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := write.NewWriter(&out, "agentic_mooncake", s.Block)
	if err != nil {
		t.Fatal(err)
	}
	dense := formats.NewDense(s.Block)
	for {
		var r formats.Record
		err := s.Next(&r)
		if err == io.EOF {
			break
		}
		if err == nil {
			dense.Apply(&r)
			err = w.Write(&r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n")[1:] {
		var f scan.Fields
		if err := f.OpenLine([]byte(line)); err != nil {
			t.Fatal(err)
		}
		row := fmt.Sprintf("%s %s/%s at %s", f.ReadText("request_id"), f.ReadText("play_id"), f.ReadText("session_id"), f.Value("not_before_ms"))
		for _, d := range f.Elements("dependencies") {
			row += fmt.Sprintf(", %s of %s+%s %s", d.ReadText("trigger"), d.ReadText("request_id"), d.Value("delay_ms"), d.ReadText("relation"))
		}
		rows = append(rows, row)
	}
	return rows, out.String(), w.Lost()
}

// A written graph has all edges of the source, with their delays, triggers and relations.
func TestGraphsKeepTheirEdges(t *testing.T) {
	node := func(id, session, rest string) string {
		return fmt.Sprintf(`{"request_id":"%s","play_id":"p","session_id":"%s","input_length":64,"output_length":9,"hash_ids":[1]%s}`, id, session, rest) + "\n"
	}
	chat := func(id, parent int, at float64) string {
		return fmt.Sprintf(`{"chat_id":%d,"parent_chat_id":%d,"timestamp":%v,"input_length":16,"output_length":3,"hash_ids":[5]}`, id, parent, at) + "\n"
	}
	end := func(id, session, parent string, from, took int) string {
		return fmt.Sprintf(`{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":%d,"agent_context":{"session_id":"%s"%s},"request":{"request_id":"%s","request_received_ms":%d,"total_time_ms":%d,"output_tokens":7,"replay":{"trace_block_size":16,"input_length":16,"input_sequence_hashes":[1]}}}`,
			from+took, session, parent, id, from, took) + "\n"
	}
	forks := chat(1, -1, 1) + chat(2, 1, 2) + chat(3, 1, 3.5) + chat(4, 3, 5) + chat(5, 2, 6) + chat(6, 99, 6)
	for _, c := range []struct {
		name, text string
		o          formats.Options
		want       []string
	}{
		{"version 2, out of order", v2 + "\n" +
			node("j", "m", `,"not_before_ms":300,"dependencies":[{"request_id":"b","trigger":"completion","delay_ms":25,"relation":"join"},{"request_id":"a","trigger":"completion","delay_ms":5,"relation":"sequence"}]`) +
			node("a", "m", `,"not_before_ms":0`) +
			node("b", "n", `,"not_before_ms":50,"dependencies":[{"request_id":"a","trigger":"dispatch","delay_ms":20,"relation":"spawn"}]`) +
			node("c", "n", `,"not_before_ms":60,"dependencies":[{"request_id":"b","trigger":"completion","delay_ms":0,"relation":"replay_barrier"}]`), formats.Options{}, []string{
			"r0 p/m at 0",
			"r1 p/n at 50, dispatch of r0+20 spawn",
			"r2 p/m at 300, completion of r1+25 join, completion of r0+5 sequence",
			"r3 p/n at 60, completion of r1+0 replay_barrier",
		}},
		{"version 1", node("a", "m", `,"timestamp":100,"branches":["b"]`) + node("b", "n", `,"timestamp":130,"prefix_reset":true`) +
			node("c", "m", `,"wait_for":["a","b"],"delay":7,"tool_wait_ms":1.5`), formats.Options{}, []string{
			"r0 p/m at 0",
			"r1 p/n at 30, dispatch of r0+30 spawn",
			"r2 p/m at 30, completion of r0+8.5 sequence, completion of r1+8.5 join",
		}},
		{"chats that fork", forks, formats.Options{}, []string{
			"r0 1/1 at 0",
			"r1 1/1 at 1000, dispatch of r0+1000 sequence",
			"r2 1/3 at 2500, dispatch of r0+2500 spawn",
			"r3 1/3 at 4000, dispatch of r2+1500 sequence",
			"r4 1/1 at 5000, dispatch of r1+4000 sequence",
			"r5 6/6 at 5000",
		}},
		{"chats that wait", forks, formats.Options{LeftOpen: formats.LeftOpen{Sessions: "chain"}}, []string{
			"r0 1/1 at 0",
			"r1 1/1 at 1000, completion of r0+1000 sequence",
			"r2 1/3 at 2500, completion of r0+2500 spawn",
			"r3 1/3 at 4000, completion of r2+1500 sequence",
			"r4 1/1 at 5000, completion of r1+4000 sequence",
			"r5 6/6 at 5000",
		}},
		{"agents of agents", end("a", "m", "", 1000, 500) + end("b", "n", `,"parent_session_id":"m"`, 1700, 100) + end("c", "n", `,"parent_session_id":"m"`, 1900, 100) +
			end("x", "o", `,"parent_session_id":"m"`, 1200, 5000) + end("d", "m", "", 2500, 10), formats.Options{}, []string{
			"r0 m/m at 0",
			"r1 m/o at 200, dispatch of r0+200 spawn",
			"r2 m/n at 700, completion of r0+200 spawn",
			"r3 m/n at 900, completion of r2+100 sequence",
			"r4 m/m at 1500, completion of r0+1000 sequence, completion of r3+500 join",
		}},
		{"conversations with agents", `{"id":"c1","block_size":64,"requests":[{"t":0,"type":"s","in":64,"out":12,"hash_ids":[1],"api_time":2},` +
			`{"t":3,"type":"subagent","duration_ms":4000,"requests":[{"t":3.5,"type":"n","in":64,"out":4,"hash_ids":[7],"api_time":1},{"t":5,"type":"n","in":64,"out":4,"hash_ids":[7],"api_time":1}]},` +
			`{"t":3,"type":"subagent","duration_ms":null,"requests":[{"t":3.25,"type":"n","in":64,"out":4,"hash_ids":[9]}]},` +
			`{"t":8,"type":"s","in":64,"out":5,"hash_ids":[1]}]}`, formats.Options{LeftOpen: formats.LeftOpen{Rate: 1}}, []string{
			"r0 c1/c1 at 0",
			"r1 c1/c1/1 at 3500, completion of r0+1500 spawn",
			"r2 c1/c1/1 at 3500, completion of r1+500 sequence",
			"r3 c1/c1 at 3500, completion of r0+6000 sequence, completion of r2+1000 join",
			"r4 c1/c1/2 at 3250, completion of r0+1250 spawn",
		}},
	} {
		rows, whole, lost := asGraph(t, c.text, c.o)
		if got, want := strings.Join(rows, "\n"), strings.Join(c.want, "\n"); got != want || lost != 0 {
			t.Errorf("%s:\n%s\nwant\n%s\n%d edges lost", c.name, got, want, lost)
			continue
		}
		if _, again, _ := asGraph(t, whole, formats.Options{}); again != whole {
			t.Errorf("%s: written and read back:\n%s\nwant\n%s", c.name, again, whole)
		}
		// With --dag chain the written graph can be read, too.
		if _, err := collected(whole, formats.Options{LeftOpen: formats.LeftOpen{DAG: "chain"}}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Edges from dropped requests are counted. The dependent requests start at the recorded time.
func TestLostEdges(t *testing.T) {
	text := v2 + `
{"request_id":"a","play_id":"p","session_id":"m","input_length":64,"output_length":0,"hash_ids":[1],"not_before_ms":0}
{"request_id":"b","play_id":"p","session_id":"m","input_length":64,"output_length":3,"hash_ids":[1],"not_before_ms":9,"dependencies":[{"request_id":"a","trigger":"completion","delay_ms":5,"relation":"sequence"}]}
`
	rows, _, lost := asGraph(t, text, formats.Options{LeftOpen: formats.LeftOpen{ZeroOutput: "drop"}})
	if len(rows) != 1 || rows[0] != "r0 p/m at 9" && rows[0] != "r0 p/m at 0" || lost != 1 {
		t.Errorf("%q, %d edges lost; want one row without edges", rows, lost)
	}
}

// With Sessions "chain", only the first child of a chat continues its session. Later children start separate sessions
// at their recorded times.
func TestForksAsChains(t *testing.T) {
	var text strings.Builder
	for _, c := range [][3]int{{1, -1, 1}, {2, 1, 2}, {3, 1, 4}, {4, 3, 5}, {5, 2, 6}} {
		fmt.Fprintf(&text, `{"chat_id":%d,"parent_chat_id":%d,"timestamp":%d,"input_length":16,"output_length":3,"hash_ids":[5]}`+"\n", c[0], c[1], c[2])
	}
	_, all := records(t, text.String(), formats.Options{LeftOpen: formats.LeftOpen{Sessions: "chain"}})
	var got []string
	for _, r := range all {
		got = append(got, fmt.Sprintf("%s of %s at %v after %v %v", r.Session, r.Group, r.At, r.Delay, r.HasDelay))
	}
	want := []string{"1 of 1 at 0 after 0 false", "1 of 1 at 1000 after 1000 true", "3 of 1 at 3000 after 0 false", "3 of 1 at 4000 after 1000 true", "1 of 1 at 5000 after 4000 true"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
