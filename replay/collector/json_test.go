package collector_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/replay/collector"
)

func TestAppendFloat(t *testing.T) {
	tests := []struct {
		v    float64
		want string
	}{
		{0, "0.0"}, {math.Copysign(0, -1), "-0.0"}, {1, "1.0"}, {10, "10.0"}, {-2.5, "-2.5"},
		{43.599045000000004, "43.599045000000004"}, {0.1, "0.1"}, {174.01615183118054, "174.01615183118054"},
		{1e-4, "0.0001"}, {9.999e-5, "9.999e-05"}, {1e-5, "1e-05"}, {1e-9, "1e-09"}, {1.5e-10, "1.5e-10"},
		{1e15, "1000000000000000.0"}, {1e16, "1e+16"}, {1.5e16, "1.5e+16"}, {9007199254740993, "9007199254740992.0"},
		{9999999999999998, "9999999999999998.0"}, {123456789012345680, "1.2345678901234568e+17"},
		{5e-324, "5e-324"}, {math.MaxFloat64, "1.7976931348623157e+308"}, {1e100, "1e+100"}, {1e22, "1e+22"},
		{2.2250738585072014e-308, "2.2250738585072014e-308"}, {0.30000000000000004, "0.30000000000000004"},
	}
	for _, test := range tests {
		if got := string(collector.AppendFloat([]byte("x=1e5 "), test.v)); got != "x=1e5 "+test.want {
			t.Errorf("%g: got %q, want %q after the prefix", test.v, got, test.want)
		}
	}
}

// TestAppendFloatLikePython checks that Python's json module writes the same digits.
func TestAppendFloatLikePython(t *testing.T) {
	python := optional.Python(t)
	rng := rand.New(rand.NewPCG(7, 8))
	var in, want []string
	for len(want) < 30_000 {
		v := math.Float64frombits(rng.Uint64())
		switch len(want) % 3 {
		case 1:
			v = rng.ExpFloat64() * math.Pow(10, float64(rng.IntN(26)-7))
		case 2:
			v = float64(rng.Int64N(1<<60)) / float64(int64(1)<<rng.IntN(60))
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		in = append(in, strconv.FormatUint(math.Float64bits(v), 10))
		want = append(want, string(collector.AppendFloat(nil, v)))
	}
	const script = "import json,struct,sys\n" +
		"for w in sys.stdin.read().split(): print(json.dumps(struct.unpack('<d',struct.pack('<Q',int(w)))[0]))"
	cmd := exec.Command(python, "-c", script)
	cmd.Stdin = strings.NewReader(strings.Join(in, " "))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	if len(got) != len(want) {
		t.Fatalf("python wrote %d numbers, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("bits %s: ours %s, python %s", in[i], want[i], got[i])
		}
	}
}

// TestReferenceReportRoundTrip checks that ReadJSON and WriteJSON keep every byte of a report of the reference.
func TestReferenceReportRoundTrip(t *testing.T) {
	text, err := os.ReadFile("testdata/table.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := collector.ReadJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	if out.String() != string(text) {
		t.Errorf("wrote\n%s\nwant\n%s", out.String(), text)
	}
	if n := len(r.Fields()); n != 68 {
		t.Errorf("%d keys, want 68", n)
	}
	if !slices.IsSortedFunc(r.Fields(), func(a, b collector.Field) int { return strings.Compare(a.Key, b.Key) }) {
		t.Error("keys are not sorted")
	}
}

func TestExtraKeys(t *testing.T) {
	r := new(collector.Report)
	r.Add(
		collector.Of("rejected_requests", 3), collector.Of("partial", true), collector.Of("a \"quoted\" key", "ü\n"), collector.Of("zeta", 2.0),
	)
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(out.Bytes()) {
		t.Errorf("not JSON: %s", out.String())
	}
	for _, line := range []string{"  \"rejected_requests\": 3,\n", "  \"partial\": true,\n", "  \"zeta\": 2.0\n}\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
	again, err := collector.ReadJSON(&out)
	if err != nil {
		t.Fatal(err)
	}
	want := []collector.Field{
		collector.Of("a \"quoted\" key", "ü\n"), collector.Of("partial", true), collector.Of("rejected_requests", 3), collector.Of("zeta", 2.0),
	}
	for _, f := range want {
		if again.Get(f.Key) != f {
			t.Errorf("read %v, want %v", again.Get(f.Key), f)
		}
	}
	if have := len(again.Fields()) - len(new(collector.Report).Fields()); have != len(want) {
		t.Errorf("%d further entries, want %d", have, len(want))
	}
}

func TestWriteJSONRefuses(t *testing.T) {
	for _, r := range []*collector.Report{
		{WallMS: math.Inf(1)},
		{TTFT: collector.Distribution{Mean: math.NaN()}},
	} {
		var out bytes.Buffer
		if err := r.WriteJSON(&out); err == nil || !strings.HasPrefix(err.Error(), "report: ") {
			t.Errorf("%+v: error %v, want one that names the key", r, err)
		}
	}
	full := errors.New("disk full")
	if err := new(collector.Report).WriteJSON(writerFunc(func([]byte) (int, error) { return 0, full })); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestReadJSONRefuses(t *testing.T) {
	var whole bytes.Buffer
	if err := new(collector.Report).WriteJSON(&whole); err != nil {
		t.Fatal(err)
	}
	edit := func(from, to string) string {
		if !strings.Contains(whole.String(), from) {
			t.Fatalf("no %q in the report", from)
		}
		return strings.Replace(whole.String(), from, to, 1)
	}
	tests := []struct{ text, want string }{
		{"", "EOF"},
		{"{", "unexpected EOF"},
		{"[]", "array"},
		{whole.String() + "{}", "more than one"},
		{edit(`"num_requests": 0`, `"number": 0`), "no num_requests"},
		{edit(`"num_requests": 0`, `"num_requests": 0.5`), "num_requests"},
		{edit(`"duration_ms": 0.0`, `"duration_ms": "long"`), "duration_ms: long, must be a number"},
		{edit(`"duration_ms": 0.0`, `"duration_ms": 1e999`), "duration_ms"},
		{edit(`"duration_ms"`, `"more": [1], "duration_ms"`), "more: [1], must be"},
	}
	for _, test := range tests {
		_, err := collector.ReadJSON(strings.NewReader(test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want one about %q", err, test.want)
		}
	}
}
