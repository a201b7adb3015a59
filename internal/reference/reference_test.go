package reference_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

func TestCompare(t *testing.T) {
	ref := func() *collector.Report {
		return &collector.Report{
			Requests: 3, DurationMS: 10, WallMS: 1,
			TTFT: collector.Distribution{Mean: 2e6, P99: 3, Std: 0.5},
			ITL:  collector.Distribution{Mean: 1e-8},
		}
	}
	tests := []struct {
		name string
		edit func(r *collector.Report)
		want []string
	}{
		{"nothing", func(r *collector.Report) {}, nil},
		{"wall clock", func(r *collector.Report) { r.WallMS, r.ProcessedTokensPerS, r.ProcessedOutputPerS = 2, 3, 4 }, nil},
		{"last bit", func(r *collector.Report) { r.DurationMS = 10.000000000000002 },
			[]string{"duration_ms: reference 10.0, ours 10.000000000000002"}},
		{"count", func(r *collector.Report) { r.Requests = 4 }, []string{"num_requests: reference 3, ours 4"}},
		{"percentile", func(r *collector.Report) { r.TTFT.P99 = 3.0000000000000004 },
			[]string{"p99_ttft_ms: reference 3.0, ours 3.0000000000000004"}},
		{"mean within", func(r *collector.Report) { r.TTFT.Mean = 2e6 + 0.0019 }, nil},
		{"mean beyond", func(r *collector.Report) { r.TTFT.Mean = 2e6 + 0.0021 },
			[]string{"mean_ttft_ms: reference 2000000.0, ours 2000000.0021"}},
		{"small mean", func(r *collector.Report) { r.ITL.Mean = 1.09e-8 }, nil},
		{"std beyond", func(r *collector.Report) { r.TTFT.Std = 0.500000002 },
			[]string{"std_ttft_ms: reference 0.5, ours 0.500000002"}},
		{"only ours", func(r *collector.Report) { r.Add(collector.Of("partial", true)) }, nil},
	}
	for _, test := range tests {
		ours := ref()
		test.edit(ours)
		if got := lines(reference.Compare(ref(), ours)); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
	more := ref()
	more.Add(collector.Of("flag", "x"))
	if got := lines(reference.Compare(more, ref())); !slices.Equal(got, []string{"flag: reference x, ours missing"}) {
		t.Errorf("only theirs: got %q", got)
	}
}

func lines(diffs []reference.Diff) []string {
	var s []string
	for _, d := range diffs {
		s = append(s, d.String())
	}
	return s
}

// A collector and the same requests in the format of the reference do not differ. Each difference is reported once.
func TestCompareRequests(t *testing.T) {
	c := collector.New(2)
	for id := range sim.RequestID(3) {
		c.Arrive(&sim.Request{ID: id, InputTokens: 8, OutputTokens: 2, Session: 4, Turn: int32(id)}, 1)
	}
	c.Place(0, 1)
	c.PlacePrefill(0, 2)
	c.Pass(&scheduler.Pass{
		Start: 2, End: 3, Gap: 1, Count: 1, Admitted: []scheduler.Admission{{Request: 0, Reused: 5}},
		Marks: []scheduler.Mark{{Request: 0, First: true, Tokens: 1}},
	})
	const text = `{"arrival_ms":1.0,"admit_ms":2.0,"reused_input_tokens":5,"input_length":8,"output_length":2,"n_tokens":1,"first_token_ms":3.0,"second_token_ms":null,"last_token_ms":3.0,"worker":1,"prefill_worker":2,"session":4,"turn":0,"arrival_order":0}
{"arrival_ms":1.0,"admit_ms":null,"reused_input_tokens":0,"input_length":8,"output_length":2,"n_tokens":0,"first_token_ms":null,"second_token_ms":null,"last_token_ms":null,"worker":null,"session":4,"turn":1,"arrival_order":1}
`
	ref := read(t, text)
	ours := reference.Requests(c)
	if got := lines(reference.CompareRequests(ref, ours[:2])); got != nil {
		t.Errorf("same requests: %q", got)
	}
	ref = read(t, strings.NewReplacer(`"worker":1`, `"worker":3`, `"second_token_ms":null`, `"second_token_ms":4.5`).Replace(text))
	ref[1].Turn = 9
	want := []string{
		"session 4 turn 0: second_token_ms: reference 4.5, ours null",
		"session 4 turn 0: worker: reference 3, ours 1",
		"session 4 turn 9: reference a request, ours missing",
		"session 4 turn 1: reference missing, ours a request",
		"session 4 turn 2: reference missing, ours a request",
	}
	if got := lines(reference.CompareRequests(ref, ours)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	ours[2].Turn = 1
	if got := lines(reference.CompareRequests(nil, ours[1:])); len(got) == 0 || !strings.Contains(got[0], "twice") {
		t.Errorf("a request twice: got %q", got)
	}
}

func read(t *testing.T, text string) []reference.Request {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.requests.jsonl.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	requests, err := reference.ReadRequests(path)
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

func TestReadRequestsRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	for _, text := range []string{"{\"arrival_ms\":1}\n{\"arrival\":2}\n", "{\"turn\":1}\n{\"turn\":"} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := reference.ReadRequests(path); err == nil || !strings.Contains(err.Error(), path+": request 1: ") {
			t.Errorf("%q: error %v, want one that names the file and request 1", text, err)
		}
	}
}

// In each case, the metrics of requests in the reference's report follow from the recorded values of all requests.
func TestReferenceAgreesWithItself(t *testing.T) {
	cases, err := reference.Load(optional.Data(t, "golden"))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for i := range cases {
		c := &cases[i]
		if c.Outcome != reference.OK {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if _, err := c.TracePath(); err != nil {
				t.Error(err)
			}
			ref, err := c.Report()
			if err != nil {
				t.Fatal(err)
			}
			requests, ok, err := c.Requests()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return
			}
			compared++
			ours := replayed(requests)
			ours.ITL, ours.UserThroughput = ref.ITL, ref.UserThroughput // these metrics require the time of every token
			for _, d := range reference.Compare(ref, ours) {
				t.Error(d)
			}
		})
	}
	if compared == 0 {
		t.Error("no case has requests")
	}
}

// replayed returns the report of a collector to which the requests are added.
func replayed(requests []reference.Request) *collector.Report {
	slices.SortFunc(requests, func(a, b reference.Request) int { return a.ArrivalOrder - b.ArrivalOrder })
	c := collector.New(len(requests))
	for i, r := range requests {
		id := sim.RequestID(i)
		c.Arrive(&sim.Request{ID: id, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens}, sim.Time(r.ArrivalMS))
		c.Admit(sim.Time(*r.AdmitMS), []scheduler.Admission{{Request: id, Reused: r.Reused}})
		c.Pass(&scheduler.Pass{End: sim.Time(*r.FirstMS), Count: 1, Marks: []scheduler.Mark{{Request: id, First: true, Tokens: 1}}})
		if r.SecondMS != nil {
			c.Pass(&scheduler.Pass{End: sim.Time(*r.SecondMS), Count: 1, Second: []sim.RequestID{id}})
		}
		c.Pass(&scheduler.Pass{End: sim.Time(*r.LastMS), Count: 1, Marks: []scheduler.Mark{{Request: id, Last: true, Tokens: r.Tokens}}})
	}
	return c.Report(0)
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := reference.Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one of a file that is not there", err)
	}
	for _, text := range []string{"{", `[{"trace":"x"}]`} {
		if err := os.WriteFile(filepath.Join(dir, "cases.json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := reference.Load(dir); err == nil || !strings.Contains(err.Error(), "cases.json") {
			t.Errorf("%q: error %v, want one that names the file", text, err)
		}
	}
	text := `[{"name":"n","trace":"t.jsonl","args":["--a"],"outcome":"ok"}]`
	if err := os.WriteFile(filepath.Join(dir, "cases.json"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	cases, err := reference.Load(dir)
	if err != nil || len(cases) != 1 || fmt.Sprint(cases[0].Args) != "[--a]" {
		t.Fatalf("cases %+v, error %v", cases, err)
	}
	if path, err := cases[0].TracePath(); err == nil {
		t.Errorf("trace at %s, want an error", path)
	}
}
