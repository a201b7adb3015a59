package reference

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// goldenCase is a line of cases.json with its parsed engine arguments.
type goldenCase struct {
	Name    string
	Trace   string
	Args    []string
	Outcome string

	traceBlock, workers int
	config              sglang.Config
}

// goldenRequest is the reference's result for a request.
type goldenRequest struct {
	Arrival float64  `json:"arrival_ms"`
	Admit   float64  `json:"admit_ms"`
	Reused  int      `json:"reused_input_tokens"`
	Tokens  int      `json:"n_tokens"`
	First   float64  `json:"first_token_ms"`
	Second  *float64 `json:"second_token_ms"`
	Last    float64  `json:"last_token_ms"`
	Worker  int
}

// traceRow is a line of a trace file.
type traceRow struct {
	Session   string `json:"session_id"`
	Timestamp *float64
	Delay     float64
	Input     int      `json:"input_length"`
	Output    int      `json:"output_length"`
	IDs       []uint64 `json:"hash_ids"`
}

// Results equal the reference's own runs with round robin: one worker, or several independent workers. Requests are
// compared field by field. If the reference never ends in a case, the case must end in a stall or an error here.
func TestGolden(t *testing.T) {
	var cases []goldenCase
	raw, err := os.ReadFile(optional.Data(t, "golden/cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, c := range cases {
		if !c.read(t) {
			continue
		}
		compared++
		t.Run(c.Name, func(t *testing.T) {
			rows := loadTrace(t, c.Trace)
			if c.Outcome != "ok" {
				c.mustStall(t, rows)
				return
			}
			c.compare(t, rows)
		})
	}
	if compared < 15 {
		t.Errorf("%d cases compared, want at least 15", compared)
	}
}

// read parses the arguments of a case; it returns false for cases of other engines.
func (c *goldenCase) read(t *testing.T) bool {
	var engine struct {
		Type   string `json:"engine_type"`
		Pages  int    `json:"num_gpu_blocks"`
		Tokens int    `json:"block_size"`
		SGLang struct {
			Policy string `json:"schedule_policy"`
			Chunk  int    `json:"chunked_prefill_size"`
		}
	}
	if c.Trace == "" {
		return false
	}
	for i := 0; i < len(c.Args); i += 2 {
		var err error
		switch v := c.Args[i+1]; c.Args[i] {
		case "--trace-block-size":
			c.traceBlock, err = strconv.Atoi(v)
		case "--num-workers":
			c.workers, err = strconv.Atoi(v)
		case "--extra-engine-args":
			err = json.Unmarshal([]byte(v), &engine)
		default:
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if engine.Type != "sglang" || c.workers > 1 && c.Trace == "sessions.jsonl" {
		return false
	}
	c.config = config(engine.Tokens, engine.Pages)
	if engine.SGLang.Policy == "lpm" {
		c.config.Policy = sglang.LPM
	}
	if engine.SGLang.Chunk > 0 {
		c.config.ChunkTokens = engine.SGLang.Chunk
	}
	return true
}

func (c *goldenCase) compare(t *testing.T, rows []traceRow) {
	want := loadGolden(t, c.Name)
	w := newWorkload(c.config, c.traceBlock, rows)
	if err := w.play(c.config, c.workers); err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for i, g := range want {
		same := float64(w.arrivals[i]) == g.Arrival && float64(w.admitted[i]) == g.Admit && w.reused[i] == g.Reused &&
			w.tokens[i] == g.Tokens && float64(w.first[i]) == g.First && float64(w.last[i]) == g.Last &&
			(g.Second == nil || float64(w.second[i]) == *g.Second)
		if same {
			continue
		}
		if wrong++; wrong < 4 {
			t.Errorf("request %d: arrives %v, admitted %v reusing %d, %d tokens at %v, %v … %v, want %+v",
				i, w.arrivals[i], w.admitted[i], w.reused[i], w.tokens[i], w.first[i], w.second[i], w.last[i], g)
		}
	}
	if wrong > 0 || len(want) != len(rows) {
		t.Errorf("%d of %d requests differ (%d rows)", wrong, len(want), len(rows))
	}
}

func (c *goldenCase) mustStall(t *testing.T, rows []traceRow) {
	w := newWorkload(c.config, c.traceBlock, rows)
	if err := w.play(c.config, c.workers); err == nil {
		t.Error("ends, where the reference does not")
	}
}

// workload is a trace with turns that may wait for the previous turn.
type workload struct {
	*run
	tree  *prompt.Tree
	rows  []traceRow
	next  []int // next turn of the session of each row; 0: none
	ready []int // rows that may arrive, in order of arrival
}

func newWorkload(c sglang.Config, traceBlock int, rows []traceRow) *workload {
	w := &workload{rows: rows, next: make([]int, len(rows))}
	trace := make([]line, len(rows))
	start := *rows[0].Timestamp
	last := make(map[string]int)
	for i, r := range rows {
		trace[i] = line{in: r.Input, out: r.Output, ids: r.IDs}
		before, later := last[r.Session]
		if later && r.Session != "" {
			w.next[before] = i
		} else {
			w.ready = append(w.ready, i)
			start = min(start, *r.Timestamp)
		}
		last[r.Session] = i
	}
	for _, i := range w.ready {
		trace[i].at = sim.Time(*rows[i].Timestamp - start)
	}
	w.run = newRun(&c, traceBlock, trace)
	w.tree = c.Tree
	w.sortReady()
	return w
}

func (w *workload) sortReady() {
	slices.SortStableFunc(w.ready, func(a, b int) int {
		if w.arrivals[a] != w.arrivals[b] {
			if w.arrivals[a] < w.arrivals[b] {
				return -1
			}
			return 1
		}
		return a - b
	})
}

// play runs the workload on the workers one after the other. With round robin, workers are independent. Turns that
// wait require a single worker.
func (w *workload) play(c sglang.Config, workers int) error {
	c.Tree = w.tree
	all := w.ready
	for k := range workers {
		core, err := New(c)
		if err != nil {
			return err
		}
		w.ready, w.now = nil, 0
		for i := k; i < len(all); i += workers {
			w.ready = append(w.ready, all[i])
		}
		if err := w.playOne(core); err != nil {
			return err
		}
	}
	return nil
}

func (w *workload) playOne(core *Core) error {
	var p scheduler.Pass
	for len(w.ready) > 0 || core.Load() > 0 {
		if core.Load() == 0 {
			w.now = max(w.now, w.arrivals[w.ready[0]])
		}
		for len(w.ready) > 0 && w.arrivals[w.ready[0]] <= w.now {
			core.Submit(w.requests[w.ready[0]])
			w.ready = w.ready[1:]
		}
		if err := core.Step(w.now, w.now, &p); err != nil {
			return err
		}
		w.collect(&p)
		if w.each != nil {
			w.each(&p)
		}
		w.now = p.End
		for _, m := range p.Marks {
			if n := w.next[m.Request]; m.Last && n > 0 {
				w.arrivals[n] = p.End + sim.Time(w.rows[n].Delay)
				w.ready = append(w.ready, n)
				w.sortReady()
			}
		}
	}
	return nil
}

func loadTrace(t testing.TB, name string) []traceRow {
	t.Helper()
	path, err := optional.FindData("golden/traces/" + name)
	if err != nil {
		path = optional.Data(t, "traces/"+name)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return decodeLines[traceRow](t, f)
}

func loadGolden(t *testing.T, name string) []goldenRequest {
	t.Helper()
	f, err := os.Open(optional.Data(t, "golden/"+name+".requests.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return decodeLines[goldenRequest](t, z)
}

func decodeLines[T any](t testing.TB, from io.Reader) []T {
	t.Helper()
	var all []T
	d := json.NewDecoder(bufio.NewReader(from))
	for d.More() {
		var v T
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}
