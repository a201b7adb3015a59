package schema

import (
	"math"
	"slices"
	"testing"
)

// The significand of the second number does not fit in 53 bits, so that the
// reference rounds twice.
func TestCompatRoundsDecimalsTwice(t *testing.T) {
	for _, text := range []string{"2.5", "1e3", "0.1", "1e-320", "123456789.125", "5e-324", "1.7976931348623157e308"} {
		got, ok := parseNumber(text, true)
		want, _ := parseNumber(text, false)
		if !ok || math.Abs(got-want) > math.Abs(want)*3e-16+5e-324 {
			t.Errorf("%s: %v, %v; want about %v", text, got, ok, want)
		}
	}
	got, _ := parseNumber("1928.4445845629277", true)
	if want := 1928.4445845629275; got != want {
		t.Errorf("1928.4445845629277 with compat: %v, want %v", got, want)
	}
	for f, want := range map[float64]string{1e16: "1e+16", 1e15: "1000000000000000.0", 1e-4: "0.0001", 1e-5: "1e-05", 0.5: "0.5"} {
		if got := writeFloat(f); got != want {
			t.Errorf("writeFloat(%g) = %s, want %s", f, got, want)
		}
	}
}

// engine is an object with a member of each type.
type engine struct {
	on    bool
	name  string
	count int
	limit int
	share float64
	inner int
}

func (e *engine) declare(d *Decl) {
	d.Bool(&e.on, Row{Key: "on", Value: true, Help: "turn it on"})
	d.Group(Row{Key: "own"}, func(m *Decl) {
		m.Alone("sglang")
		m.CountTo(&e.inner, 9, Row{Key: "inner_part", Value: 3, Help: "`parts`", After: "limit", File: File{Place: 1}, Log: "sglang:inner"})
		m.RefuseOthers()
	})
	if name := d.Name(Row{Key: "name", Names: []string{"a", "b"}, Help: "by `name`", Default: "a", After: "on"}); name != "" {
		e.name = name
	}
	d.Size(&e.count, Row{Key: "count"})
	d.Limit(&e.limit, Row{Key: "limit", Value: 7, Help: "most `requests`", Log: "vllm:limit vllm:!nolimit"})
	mark := d.Own()
	d.NumberIn(&e.share, func(f float64) bool { return f <= 1 }, "at most 1", Row{Key: "share", Help: "a `share`"})
	if d.Compat {
		d.RefuseSince(mark, "no compat")
	}
	if e.count == 5 {
		d.Fail("count", "5", "another")
	}
}

func read(text string, compat bool) (engine, error) {
	values, err := ReadObject([]byte(text))
	if err != nil {
		return engine{}, err
	}
	var e engine
	return e, Read(values, compat, e.declare)
}

func TestRead(t *testing.T) {
	usual := engine{on: true, limit: 7, inner: 3}
	set := func(change func(*engine)) engine { e := usual; change(&e); return e }
	for text, want := range map[string]engine{
		`{}`: usual, `{"own":null}`: usual, `{"own":{}}`: usual,
		`{"own":{"inner_part":9},"limit":null,"on":false}`: {inner: 9},
		`{"name":"b","count":18446744073709551615}`:        set(func(e *engine) { e.name, e.count = "b", 1<<62 }),
	} {
		if e, err := read(text, false); err != nil || e != want {
			t.Errorf("%s: %+v, %v, want %+v", text, e, err, want)
		}
	}
	for text, key := range map[string]string{
		`{"on":1}`: "on", `{"own":[]}`: "own", `{"own":{"inner_part":10}}`: "own.inner_part", `{"own":{"x":1}}`: "own.x", `{"name":"c"}`: "name",
		`{"share":2,"count":5}`: "share", `{"count":5}`: "count", `{"limit":0,"count":5}`: "limit",
	} {
		_, err := read(text, false)
		if e, ok := err.(*KeyError); !ok || e.Key != key {
			t.Errorf("%s: %v, want an error of %s", text, err, key)
		}
	}
	// The reference ignores a wrong type, except inside an object.
	if e, err := read(`{"on":1,"limit":"x"}`, true); err != nil || e != usual {
		t.Errorf("%+v, %v", e, err)
	}
	for _, text := range []string{`{"own":{"inner_part":"x"}}`, `{"share":0.5}`, `[]`, `{} {}`, `{"a":}`, `{"a":1`} {
		if _, err := read(text, true); err == nil {
			t.Errorf("%s: taken", text)
		}
	}
}

func TestList(t *testing.T) {
	rows := List(new(engine).declare)
	var keys, help []string
	for _, r := range rows {
		keys = append(keys, r.Key)
	}
	for _, r := range InHelp(rows) {
		help = append(help, r.Flag+"="+r.Preset())
	}
	if want := []string{"on", "own", "own.inner_part", "name", "count", "limit", "share"}; !slices.Equal(keys, want) {
		t.Errorf("%q, want %q", keys, want)
	}
	// A row with After is moved, with the following rows up to the next row with After.
	if want := []string{"on=true", "name=a", "limit=7", "inner-part=3", "share=0"}; !slices.Equal(help, want) {
		t.Errorf("%q, want %q", help, want)
	}
	if want := []string{"count", "limit", "name", "on", "own", "share"}; !slices.Equal(Keys(new(engine).declare), want) {
		t.Errorf("%q, want %q", Keys(new(engine).declare), want)
	}
	if logs := Logs(rows, "vllm"); !slices.Equal(logs, []Logged{{"limit", "limit", false}, {"nolimit", "limit", true}}) {
		t.Errorf("%v", logs)
	}
	placed := Placed(rows)
	if len(placed) != 1 || placed[0].Sets != "own.inner_part" || placed[0].Only != "sglang" || placed[0].Help != "sglang: `parts`" {
		t.Errorf("%+v", placed)
	}
	if r := Find(rows, "share"); r == nil || !r.Own {
		t.Errorf("%+v", r)
	}
	if unit, preset := placed[0].Unit(), placed[0].Preset(); unit != "parts" || preset != "3" {
		t.Errorf("unit %q, default %q, want parts and 3", unit, preset)
	}
}

// Settings override the members of an object, in their order.
func TestPut(t *testing.T) {
	v := Values{}
	for _, s := range []Value{{"own.inner_part", "4"}, {"own.inner_part", "5"}, {"limit", "null"}} {
		if err := v.Put(s); err != nil {
			t.Fatal(err)
		}
	}
	var e engine
	if err := Read(v, false, e.declare); err != nil || e.inner != 5 || e.limit != 0 || !v.Gives("own.inner_part") || v.Gives("own.x") || !v.Gives("limit") {
		t.Errorf("%+v, %v, %v", e, err, v)
	}
	v["own"] = []byte("1")
	if err := v.Put(Value{"own.inner_part", "4"}); err == nil {
		t.Error("a member of a number")
	}
}
