package registry

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
)

const day = "day.jsonl"

const twoSessions = `{"session_id":"a","timestamp":100,"input_length":64,"output_length":2,"hash_ids":[1]}
{"session_id":"b","timestamp":110,"input_length":64,"output_length":2,"hash_ids":[7]}
{"session_id":"a","delay":20,"input_length":128,"output_length":2,"hash_ids":[1,2]}
{"session_id":"b","timestamp":125,"input_length":128,"output_length":1,"hash_ids":[7,8]}
`

const unsorted = `{"timestamp":5,"input_length":128,"output_length":2,"hash_ids":[1,2]}
{"timestamp":0,"input_length":100,"output_length":2,"hash_ids":[3,4]}
{"timestamp":5,"input_length":64,"output_length":3,"hash_ids":[5]}
{"timestamp":5,"input_length":128,"output_length":2,"hash_ids":[3,4]}
{"timestamp":30,"input_length":128,"output_length":1,"hash_ids":[3,6]}
`

func readTrace(text string, o formats.Options) (*loadgen.Workload, error) {
	if o.TraceBlock == 0 {
		o.TraceBlock = 64
	}
	o.Format = formats.Mooncake
	return Read(strings.NewReader(text), day, o)
}

func mustRead(t *testing.T, text string) *loadgen.Workload {
	t.Helper()
	w, err := readTrace(text, formats.Options{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return w
}

// dump returns a workload as text, with a line for each turn in file order.
func dump(w *loadgen.Workload) string {
	var b strings.Builder
	for _, t := range w.Turns {
		s := w.Sessions[t.Session]
		fmt.Fprintf(&b, "%d %s/%d in=%d out=%d ids=%v", t.Line, w.SessionID(int(t.Session)), t.Index, t.Input, t.Output, t.IDs)
		switch {
		case t.Index > 0:
			fmt.Fprintf(&b, " delay=%v", float64(t.Delay))
		case s.HasArrival:
			fmt.Fprintf(&b, " at=%v", float64(s.Arrival))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestReadsLines(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"one record, no newline at the end",
			`{"timestamp":5,"input_length":100,"output_length":2,"hash_ids":[1,2]}`,
			"1 request_1/0 in=100 out=2 ids=[1 2] at=5\n"},
		{"white space, line ends and blank lines, which count",
			"\n \t\r\n\u00a0\u2028\v\f\u0085\n { \"timestamp\" : 5 , \"output_length\" : 2 , \"hash_ids\" : [ 1 , 2 ] } \r\r\n\n",
			"4 request_4/0 in=128 out=2 ids=[1 2] at=5\n"},
		{"aliases",
			`{"created_time":7,"input_tokens":3,"output_tokens":4,"hash_ids":[9]}`,
			"1 request_1/0 in=3 out=4 ids=[9] at=7\n"},
		{"timestamp goes before created_time, which stands in for null",
			`{"created_time":7,"timestamp":6,"output_length":4,"hash_ids":[9]}` + "\n" +
				`{"created_time":7,"timestamp":null,"output_length":4,"hash_ids":[9]}`,
			"1 request_1/0 in=64 out=4 ids=[9] at=6\n2 request_2/0 in=64 out=4 ids=[9] at=7\n"},
		{"null is absence",
			`{"session_id":null,"timestamp":null,"created_time":null,"input_length":null,"output_length":4,"hash_ids":[9],"delay":null,"delay_ms":null}`,
			"1 request_1/0 in=64 out=4 ids=[9]\n"},
		{"no ids are left for later checks",
			`{"input_length":0,"output_length":1,"hash_ids":[]}`,
			"1 request_1/0 in=0 out=1 ids=[]\n"},
		{"the widest id",
			`{"output_length":4,"hash_ids":[18446744073709551615,0]}`,
			"1 request_1/0 in=128 out=4 ids=[18446744073709551615 0]\n"},
		{"ids with blanks, of 18 digits and more",
			`{"output_length":4,"hash_ids":[1, 2,  3,` + "\t" + `4 ,5,0,999999999999999999,1000000000000000000, 10000000000000000000,7 ]}`,
			"1 request_1/0 in=640 out=4 ids=[1 2 3 4 5 0 999999999999999999 1000000000000000000 10000000000000000000 7]\n"},
		{"unknown keys of every kind, deep ones too",
			`{"a":{"b":[1,{"c":null},[],{}],"d":-1.5e+3},"e":"\"\\\u00e9\ud83d\ude00\ud800","f":true,"g":false,"h":1e400,"a":0,"output_length":4,"hash_ids":[9],"i":` +
				strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
			"1 request_1/0 in=64 out=4 ids=[9]\n"},
		{"a key written with escapes",
			`{"\u0074imestamp":3,"output\u005flength":4,"hash_ids":[9]}`,
			"1 request_1/0 in=64 out=4 ids=[9] at=3\n"},
		{"a session id with escapes; the empty one is as good as any",
			`{"session_id":"\u00e9\ud83d\ude00\n\"","output_length":4,"hash_ids":[9]}` + "\n" +
				`{"session_id":"","output_length":4,"hash_ids":[9]}` + "\n" + `{"session_id":"","output_length":5,"hash_ids":[9]}`,
			"1 é😀\n\"/0 in=64 out=4 ids=[9]\n2 /0 in=64 out=4 ids=[9]\n3 /1 in=64 out=5 ids=[9] delay=0\n"},
		{"a record as a list",
			`["s",1,null,10,2,[1],null,null]` + "\n" + `[null,0,null,10,2,[1]]`,
			"1 s/0 in=10 out=2 ids=[1] at=1\n2 request_2/0 in=10 out=2 ids=[1] at=0\n"},
		{"times that are hardly any",
			`{"timestamp":-0,"output_length":4,"hash_ids":[9]}` + "\n" +
				`{"timestamp":0e99999999999999999999,"output_length":4,"hash_ids":[9]}` + "\n" +
				`{"timestamp":1e-99999999999999999999,"output_length":4,"hash_ids":[9]}` + "\n" +
				`{"timestamp":-5.25E+1,"output_length":4,"hash_ids":[9]}`,
			"1 request_1/0 in=64 out=4 ids=[9] at=-0\n2 request_2/0 in=64 out=4 ids=[9] at=0\n" +
				"3 request_3/0 in=64 out=4 ids=[9] at=0\n4 request_4/0 in=64 out=4 ids=[9] at=-52.5\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := dump(mustRead(t, c.text)); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// Rows with an empty session id belong to one session, for all readers.
func TestSessionWithoutAName(t *testing.T) {
	const row = `{"session_id":"","delay":0,"input_length":10,"output_length":4,"hash_ids":[9]}` + "\n"
	s, err := NewStream(strings.NewReader(row+row+row), "f", formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := formats.Collect(s)
	if err != nil {
		t.Fatal(err)
	}
	if want := dump(mustRead(t, row+row+row)); dump(got) != want || len(got.Sessions) != 1 {
		t.Errorf("row by row\n%swant\n%s", dump(got), want)
	}
}

func TestJoinsSessions(t *testing.T) {
	const rest = `"output_length":4,"hash_ids":[9]}` + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"turns need not be adjacent; a missing delay is the gap between timestamps",
			`{"session_id":"a","timestamp":100,` + rest + `{"session_id":"b","timestamp":110,` + rest +
				`{"session_id":"a","delay":20,` + rest + `{"session_id":"b","timestamp":125,` + rest,
			"1 a/0 in=64 out=4 ids=[9] at=100\n2 b/0 in=64 out=4 ids=[9] at=110\n" +
				"3 a/1 in=64 out=4 ids=[9] delay=20\n4 b/1 in=64 out=4 ids=[9] delay=15\n"},
		{"a delay goes before a timestamp, which still counts for the next gap",
			`{"session_id":"a","timestamp":100,` + rest + `{"session_id":"a","timestamp":150,"delay_ms":7,` + rest + `{"session_id":"a","timestamp":150.5,` + rest,
			"1 a/0 in=64 out=4 ids=[9] at=100\n2 a/1 in=64 out=4 ids=[9] delay=7\n3 a/2 in=64 out=4 ids=[9] delay=0.5\n"},
		{"delay goes before delay_ms, which stands in for null",
			`{"session_id":"a",` + rest + `{"session_id":"a","delay_ms":7,"delay":8,` + rest + `{"session_id":"a","delay":null,"delay_ms":9,` + rest,
			"1 a/0 in=64 out=4 ids=[9]\n2 a/1 in=64 out=4 ids=[9] delay=8\n3 a/2 in=64 out=4 ids=[9] delay=9\n"},
		{"neither delay nor timestamp is no delay; a gap spans turns without time",
			`{"session_id":"a","timestamp":1,` + rest + `{"session_id":"a",` + rest + `{"session_id":"a","timestamp":4,` + rest,
			"1 a/0 in=64 out=4 ids=[9] at=1\n2 a/1 in=64 out=4 ids=[9] delay=0\n3 a/2 in=64 out=4 ids=[9] delay=3\n"},
		{"a first turn may say that it has no delay",
			`{"session_id":"a","delay":0,` + rest + `{"session_id":"b","delay":-0.0,` + rest,
			"1 a/0 in=64 out=4 ids=[9]\n2 b/0 in=64 out=4 ids=[9]\n"},
		{"an id that is the automatic one of an earlier line",
			`{"timestamp":1,` + rest + `{"session_id":"request_1","delay":5,` + rest,
			"1 request_1/0 in=64 out=4 ids=[9] at=1\n2 request_1/1 in=64 out=4 ids=[9] delay=5\n"},
		{"an id that is the automatic one of a later line, and one that is not",
			`{"session_id":"request_3","timestamp":1,` + rest + `{"session_id":"request_03",` + rest + `{"delay":5,` + rest + `{"session_id":"request_3","delay":6,` + rest,
			"1 request_3/0 in=64 out=4 ids=[9] at=1\n2 request_03/0 in=64 out=4 ids=[9]\n" +
				"3 request_3/1 in=64 out=4 ids=[9] delay=5\n4 request_3/2 in=64 out=4 ids=[9] delay=6\n"},
		{"the automatic id of a line that has another",
			`{"session_id":"a",` + rest + `{"session_id":"request_1",` + rest,
			"1 a/0 in=64 out=4 ids=[9]\n2 request_1/0 in=64 out=4 ids=[9]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := mustRead(t, c.text)
			if got := dump(w); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			checkLinks(t, w)
		})
	}
}

// checkLinks checks the invariants of a workload.
func checkLinks(t testing.TB, w *loadgen.Workload) {
	t.Helper()
	turns := 0
	for i, s := range w.Sessions {
		k := int32(0)
		for n := s.First; n >= 0; n = w.Turns[n].Next {
			turn := w.Turns[n]
			if turn.Session != int32(i) || turn.Index != k {
				t.Fatalf("turn %d is %d/%d, want %d/%d", n, turn.Session, turn.Index, i, k)
			}
			if !w.Synthetic && int(turn.Input) > len(turn.IDs)*w.TraceBlock {
				t.Fatalf("turn %d: %d tokens in %d ids of %d", n, turn.Input, len(turn.IDs), w.TraceBlock)
			}
			if turn.Input < 0 || turn.Output < 0 || math.IsInf(float64(turn.Delay), 0) || math.IsNaN(float64(turn.Delay)) || turn.Delay < 0 || k == 0 && turn.Delay != 0 {
				t.Fatalf("turn %d: input %d, output %d, delay %v", n, turn.Input, turn.Output, turn.Delay)
			}
			k++
		}
		if k != s.Turns || k == 0 {
			t.Fatalf("session %d has %d turns, says %d", i, k, s.Turns)
		}
		turns += int(k)
	}
	if turns != len(w.Turns) {
		t.Fatalf("%d turns in sessions, %d in all", turns, len(w.Turns))
	}
}

func TestRefusesLines(t *testing.T) {
	const (
		ok   = `{"timestamp":0,"output_length":1,"hash_ids":[1]}`
		rest = `"output_length":1,"hash_ids":[1]}`
	)
	for _, c := range []struct{ text, want string }{
		{"", "day.jsonl: the file is empty, must be at least one request"},
		{"\n \n", "day.jsonl: the file is empty, must be at least one request"},
		{"\xef\xbb\xbf" + ok, `day.jsonl:1: invalid JSON: '\ufeff' at byte 1, must be "{"`},
		{"\u00a0" + ok, `day.jsonl:1: invalid JSON: '\u00a0' at byte 1, must be "{"`},
		{ok + "\v", `day.jsonl:1: invalid JSON: '\v' at byte 49, must be the end of the line`},
		{ok + "\x00", `day.jsonl:1: invalid JSON: '\x00' at byte 49, must be the end of the line`},
		{"\x00" + ok, `day.jsonl:1: invalid JSON: '\x00' at byte 1, must be "{"`},
		{ok + "\n\n" + ok + ok, `day.jsonl:3: invalid JSON: '{' at byte 49, must be the end of the line`},
		{`{"x":"` + "\xe9" + `",` + rest, "day.jsonl:1: not valid UTF-8"},
		{ok + "\n\xff\n", "day.jsonl:2: not valid UTF-8"},
		{`true`, `day.jsonl:1: invalid JSON: 't' at byte 1, must be "{"`},
		{`{`, `day.jsonl:1: invalid JSON: the line ends at byte 2, must be a string`},
		{`{}`, `day.jsonl:1: hash_ids is missing`},
		{`[]`, `day.jsonl:1: hash_ids is missing`},
		{`[null,0,null,10]`, `day.jsonl:1: hash_ids is missing`},
		{`["s",0,null,10,2,[1],null,null,null]`, `day.jsonl:1: a list of more than 8 fields`},
		{`{"hash_ids":[1]}`, `day.jsonl:1: output_length is missing`},
		{`{"output_length":1,"hash_ids":null}`, `day.jsonl:1: hash_ids is missing`},
		{`{"output_length":null,"hash_ids":[1]}`, `day.jsonl:1: output_length is missing`},

		{`{"timestamp":0,"timestamp":0,` + rest, `day.jsonl:1: timestamp is given twice`},
		{`{"timestamp":null,"timestamp":0,` + rest, `day.jsonl:1: timestamp is given twice`},
		{`{"output_tokens":1,` + rest, `day.jsonl:1: output_length is given twice`},
		{`{"input_length":1,"input_tokens":null,` + rest, `day.jsonl:1: input_tokens is given twice`},
		{`{"hash_ids":[],` + rest, `day.jsonl:1: hash_ids is given twice`},

		{`{"input_length":-3,` + rest, `day.jsonl:1: input_length is -3, must be a whole number >= 0`},
		{`{"input_length":-0,` + rest, `day.jsonl:1: input_length is -0, must be a whole number >= 0`},
		{`{"input_length":5.0,` + rest, `day.jsonl:1: input_length is 5.0, must be a whole number >= 0`},
		{`{"input_length":5e0,` + rest, `day.jsonl:1: input_length is 5e0, must be a whole number >= 0`},
		{`{"input_length":"5",` + rest, `day.jsonl:1: input_length is "5", must be a whole number >= 0`},
		{`{"input_length":true,` + rest, `day.jsonl:1: input_length is true, must be a whole number >= 0`},
		{`{"input_length":18446744073709551616,` + rest, `day.jsonl:1: input_length is 18446744073709551616, must be a whole number >= 0`},
		{`{"input_length":05,` + rest, `day.jsonl:1: invalid JSON: '5' at byte 18, must be no digit after a leading 0`},
		{`{"input_length":,` + rest, `day.jsonl:1: invalid JSON: ',' at byte 17, must be a JSON value`},
		{`{"output_length":2147483648,"hash_ids":[1]}`, `day.jsonl:1: output_length is 2147483648, must be at most 2147483647`},
		{`{"output_length":1,"hash_ids":[1,2.0]}`, `day.jsonl:1: hash_ids is […, 2.0, …] at place 2, must be whole numbers >= 0`},
		{`{"output_length":1,"hash_ids":[18446744073709551616]}`, `day.jsonl:1: hash_ids is […, 18446744073709551616, …] at place 1, must be whole numbers >= 0`},
		{`{"output_length":1,"hash_ids":[-1]}`, `day.jsonl:1: hash_ids is […, -1, …] at place 1, must be whole numbers >= 0`},
		{`{"output_length":1,"hash_ids":7}`, `day.jsonl:1: hash_ids is 7, must be a list of whole numbers`},
		{`{"output_length":1,"hash_ids":[1,]}`, `day.jsonl:1: invalid JSON: ']' at byte 34, must be a JSON value`},
		{`{"output_length":1,"hash_ids":[1,07,2]}`, `day.jsonl:1: invalid JSON: '7' at byte 35, must be no digit after a leading 0`},
		{`{"output_length":1,"hash_ids":[1,,2]}`, `day.jsonl:1: invalid JSON: ',' at byte 34, must be a JSON value`},
		{`{"output_length":1,"hash_ids":[1,`, `day.jsonl:1: invalid JSON: the line ends at byte 34, must be a JSON value`},
		{`{"output_length":1,"hash_ids":[1, `, `day.jsonl:1: invalid JSON: the line ends at byte 35, must be a JSON value`},
		{`{"output_length":1,"hash_ids":[1}`, `day.jsonl:1: invalid JSON: '}' at byte 33, must be "," or "]"`},
		{`{"session_id":7,` + rest, `day.jsonl:1: session_id is 7, must be a string`},
		{`{"session_id":"\ud800",` + rest, `day.jsonl:1: invalid JSON: half a surrogate pair before byte 22`},
		{`{"session_id":"a` + "\t" + `",` + rest, `day.jsonl:1: invalid JSON: '\t' at byte 17, must be no control character in a string`},

		{`{"timestamp":"0",` + rest, `day.jsonl:1: timestamp is "0", must be a number`},
		{`{"timestamp":NaN,` + rest, `day.jsonl:1: invalid JSON: 'N' at byte 14, must be a JSON value`},
		{`{"timestamp":Infinity,` + rest, `day.jsonl:1: invalid JSON: 'I' at byte 14, must be a JSON value`},
		{`{"timestamp":1e400,` + rest, `day.jsonl:1: timestamp is 1e400, must be a number that fits a float64`},
		{`{"timestamp":-1e99999999999999999999,` + rest, `day.jsonl:1: timestamp is -1e99999999999999999999, must be a number that fits a float64`},
		{`{"timestamp":1.,` + rest, `day.jsonl:1: invalid JSON: ',' at byte 16, must be a digit after the decimal point`},
		{`{"timestamp":.5,` + rest, `day.jsonl:1: invalid JSON: '.' at byte 14, must be a JSON value`},
		{`{"timestamp":+5,` + rest, `day.jsonl:1: invalid JSON: '+' at byte 14, must be a JSON value`},
		{`{"timestamp":1e,` + rest, `day.jsonl:1: invalid JSON: ',' at byte 16, must be a digit in the exponent`},
		{`{"timestamp":-,` + rest, `day.jsonl:1: invalid JSON: ',' at byte 15, must be a number`},
		{`{"timestamp":nul,` + rest, `day.jsonl:1: invalid JSON: 'n' at byte 14, must be a JSON value`},

		{`{"x":01,` + rest, `day.jsonl:1: invalid JSON: '1' at byte 7, must be no digit after a leading 0`},
		{`{"x":"\q",` + rest, `day.jsonl:1: invalid JSON: 'q' at byte 8, must be an escape`},
		{`{"x":"\u12g4",` + rest, `day.jsonl:1: invalid JSON: 'g' at byte 11, must be four hexadecimal digits`},
		{`{"x":"` + "\x1f" + `",` + rest, `day.jsonl:1: invalid JSON: '\x1f' at byte 7, must be no control character in a string`},
		{`{"x":[1 2],` + rest, `day.jsonl:1: invalid JSON: '2' at byte 9, must be "," or "]"`},
		{`{"x":[{"y" 2}],` + rest, `day.jsonl:1: invalid JSON: '2' at byte 12, must be ":"`},
		{`{"x":{"y":1,},` + rest, `day.jsonl:1: invalid JSON: '}' at byte 13, must be a string`},
		{`{"x":[[]`, `day.jsonl:1: invalid JSON: the line ends at byte 9, must be "," or "]"`},
		{`{"x":"abc`, `day.jsonl:1: invalid JSON: the line ends at byte 10, must be the end of a string`},
		{`{"x":"a\n`, `day.jsonl:1: invalid JSON: the line ends at byte 10, must be the end of a string`},
		{`{"x":tru}`, `day.jsonl:1: invalid JSON: 't' at byte 6, must be a JSON value`},
		{`{x:1}`, `day.jsonl:1: invalid JSON: 'x' at byte 2, must be a string`},
		{`{"timestamp":0,"output_length":1,"hash_ids":[1],}`, `day.jsonl:1: invalid JSON: '}' at byte 49, must be a string`},

		{`{"delay":5,` + rest, `day.jsonl:1: delay is 5 on the first turn of a session, must be 0 or none`},
		{`{"delay":null,"delay_ms":5,` + rest, `day.jsonl:1: delay is 5 on the first turn of a session, must be 0 or none`},
		{`{"session_id":"a",` + rest + "\n" + `{"session_id":"a","delay":-1,` + rest, `day.jsonl:2: delay is -1, must be >= 0`},
		{`{"session_id":"a",` + rest + "\n" + `{"session_id":"a","timestamp":1,` + rest,
			`day.jsonl:2: timestamp is given, but the session had none before; must be a delay`},
		{`{"session_id":"a","timestamp":2,` + rest + "\n" + `{"session_id":"a","timestamp":1,` + rest,
			`day.jsonl:2: timestamp is 1, must be at least the 2 of the session's turn before`},
		{`{"session_id":"a","timestamp":-1e308,` + rest + "\n" + `{"session_id":"a","timestamp":1e308,` + rest,
			`day.jsonl:1: timestamp is -1e308, must be at least -10000000000000 ms`},
		{`{"timestamp":1e300,` + rest, `day.jsonl:1: timestamp is 1e300, must be at most 10000000000000 ms`},
		{`{"session_id":"a",` + rest + "\n" + `{"session_id":"a","delay":1e14,` + rest, `day.jsonl:2: delay is 1e14, must be at most 10000000000000 ms`},
	} {
		_, err := readTrace(c.text, formats.Options{})
		if err == nil || err.Error() != c.want {
			t.Errorf("%.80q\n got %v\nwant %s", c.text, err, c.want)
		}
		if syntax := (*loadgen.SyntaxError)(nil); !errors.As(err, &syntax) || syntax.Name != day {
			t.Errorf("%.80q: error %#v, want a *loadgen.SyntaxError about %s", c.text, err, day)
		}
	}
}

func TestRefusesOptionsAndLimits(t *testing.T) {
	const ok = `{"timestamp":0,"output_length":1,"hash_ids":[1]}`
	long := ok[:len(ok)-1] + `,"x":"` + strings.Repeat("y", 1<<20) + `"}`
	for _, c := range []struct {
		name, text, want string
		o                formats.Options
	}{
		{"negative block", ok, "trace block size is -1, must be > 0", formats.Options{TraceBlock: -1}},
		{"more tokens than can be counted", `{"output_length":1,"hash_ids":[1,2,3]}`,
			"day.jsonl:1: hash_ids has 3 ids of 9223372036854775807 tokens, more tokens than can be counted", formats.Options{TraceBlock: math.MaxInt}},
		{"more tokens than a prompt may have", `{"output_length":1,"hash_ids":[1,2]}`,
			"day.jsonl:1: input_length is 2147483648, must be at most 2147483647", formats.Options{TraceBlock: 1 << 30}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readTrace(c.text, c.o)
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	// The maximum line length is valid. Line ends do not count.
	for _, text := range []string{ok, ok + "\n", ok + "\r\n" + ok + "\r\n"} {
		if _, err := readTrace(text, formats.Options{}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if w, err := readTrace(ok+"\n"+long+"\n"+ok, formats.Options{}); err != nil || len(w.Turns) != 3 {
		t.Errorf("a long line between two others: %v", err)
	}
}

// The ids of a request are complete and separate from other lists when an arena of ids is full.
func TestManyIDs(t *testing.T) {
	var b strings.Builder
	next := 0
	lengths := []int{0, 1, 700, 1023, 1024, 1025, 3, 70000, 5, 140000, 2}
	for _, n := range lengths {
		b.WriteString(`{"timestamp":0,"output_length":1,"hash_ids":[`)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprint(&b, next)
			next++
		}
		b.WriteString("]}\n")
	}
	w := mustRead(t, b.String())
	next = 0
	for i, n := range lengths {
		ids := w.Turns[i].IDs
		if len(ids) != n || cap(ids) != n {
			t.Fatalf("turn %d has %d ids (room for %d), want %d", i, len(ids), cap(ids), n)
		}
		for _, id := range ids {
			if id != uint64(next) {
				t.Fatalf("turn %d holds id %d, want %d", i, id, next)
			}
			next++
		}
	}
}
