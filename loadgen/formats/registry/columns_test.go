package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
)

const theirs = "arrival=time,input=prompt_tokens,output=completion_tokens"

// readColumns reads a file with the given --columns. readColumns returns the result of describe.
func readColumns(text, columns string, o formats.LeftOpen) string {
	o.Columns = columns
	return describe("f", text, formats.Options{LeftOpen: o, TraceBlock: 16})
}

// --columns reads tables and JSON objects of any format.
func TestColumns(t *testing.T) {
	const want = "columns of 16: 120/33@0 900/5@750"
	for _, c := range []struct{ name, text, columns, want string }{
		{"a table", "time,model,prompt_tokens,completion_tokens\n10.5,x,120,33\n11.25,y,900,5\n", theirs, want},
		{"of semicolons, with a mark and blanks", "\ufefftime;note;prompt_tokens; completion_tokens\r\n10.5;\"a;b\";120;33\r\n11.25;,;900; 5\r\n", theirs, want},
		{"of tabs", "time\tprompt_tokens\tcompletion_tokens\n10.5\t120\t33\n11.25\t900\t5\n", theirs, want},
		{"with decimals", "time,prompt_tokens,completion_tokens\n1.05e1,120.0,33.\n11.25,900.00,5\n", theirs, want},
		{"ms", "time,prompt_tokens,completion_tokens\n1767225600000,120,33\n1767225600750,900,5\n", theirs + ",arrival_unit=ms", want},
		{"us", "time,prompt_tokens,completion_tokens\n5,120,33\n750005,900,5\n", theirs + ",arrival_unit=us", want},
		{"ns", "time,prompt_tokens,completion_tokens\n1767225600000000001,120,33\n1767225600750000001,900,5\n", theirs + ",arrival_unit=ns", want},
		{"dates", "time,prompt_tokens,completion_tokens\n2026-01-31T23:59:59.5Z,120,33\n2026-02-01T01:00:00.25+01:00,900,5\n", theirs, want},
		{"lines of JSON", `{"time":10.5,"prompt_tokens":120,"completion_tokens":33}` + "\n" + `{"prompt_tokens":"900","time":"11.25","completion_tokens":5}`, theirs, want},
		{"members of members", `{"t":10.5,"usage":{"in":120,"out":33}}` + "\n" + `{"t":11.25,"usage":{"out":5,"in":900}}`, "arrival=t,input=usage.in,output=usage.out", want},
		{"a list", `[{"time":10.5,"prompt_tokens":120,"completion_tokens":33},` + "\n" + `{"time":11.25,"prompt_tokens":900,"completion_tokens":5}]`, theirs, want},
		{"objects over lines", "{\n\"time\":10.5,\"prompt_tokens\":120,\n\"completion_tokens\":33}\n{\n\"time\":11.25,\"prompt_tokens\":900,\"completion_tokens\":5}", theirs, want},
		{"a name with a comma", "\"in, out\",b\n7,8\n", `"input=in, out",output=b`, "columns of 16: 7/8"},
		{"ids", "a,b,ids\n20,1,\"[5, 6]\"\n30,1,5|9\n16,1,5\n", "input=a,output=b,hash=ids", "columns of 16: 20/1#2 30/1#2 16/1#1"},
		{"ids of JSON", `{"a":20,"b":1,"ids":["x","y"]}`, "input=a,output=b,hash=ids", "columns of 16: 20/1#2"},
		{"untimed sessions wait", "a,b,s\n7,8,x\n9,1,y\n7,9,x\n", "input=a,output=b,session=s", "columns of 16: 7/8=x 9/1=y 7/9=x"},
		{"timed ones come when they came", "t,a,b,s\n0,7,8,x\n2,7,9,x\n", "arrival=t,input=a,output=b,session=s", "columns of 16: 7/8@0 7/9@2000"},
	} {
		if got := readColumns(c.text, c.columns, formats.LeftOpen{}); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	const waits = "columns of 16: 7/8@0=x 7/9@2000+2000=x"
	if got := readColumns("t,a,b,s\n0,7,8,x\n2,7,9,x\n", "arrival=t,input=a,output=b,session=s", formats.LeftOpen{Sessions: "chain"}); got != waits {
		t.Errorf("got\n%s\nwant\n%s", got, waits)
	}
	if got := readColumns("a,b\n7,8\n7,8", "input=a,output=b", formats.LeftOpen{Rate: 2}); !strings.HasPrefix(got, "columns of 16: 7/8@0 7/8@") {
		t.Errorf("paced: %s", got)
	}
}

// Errors contain the file, the line, the column and the value.
func TestColumnsRefused(t *testing.T) {
	const head = "time,prompt_tokens,completion_tokens\n1,2,3\n"
	const object = `{"time":1,"prompt_tokens":2,"completion_tokens":3}` + "\n"
	for _, c := range []struct{ text, columns, want string }{
		{head, "arrival=time,input=promt_tokens,output=completion_tokens", `f:1: no column "promt_tokens" (did you mean prompt_tokens?), must be one of time, prompt_tokens, completion_tokens`},
		{object, "arrival=tme,input=prompt_tokens,output=completion_tokens", `f:1: no column "tme" (did you mean time?), must be one of time`},
		{object + `{"time":1,"prompt_tokens":2}`, theirs, `f:2: no column "completion_tokens", must be one of time, prompt_tokens`},
		{`{"usage":{"in":1}}`, "input=usage.inn,output=o", `f:1: no column "usage.inn" (did you mean usage.in?), must be one of usage.in`},
		{object, theirs + ",session=user", `f:1: no column "user", must be one of`},
		{"time,time,prompt_tokens,completion_tokens\n", theirs, `f:1: two columns are "time", must be one`},
		{head + "1,x,3", theirs, `f:3: prompt_tokens is "x", must be a number of tokens, 0 to 2147483647`},
		{head + "1,2.5,3", theirs, `f:3: prompt_tokens is "2.5", must be a number of tokens`},
		{head + "1,2,2147483648", theirs, `f:3: completion_tokens is "2147483648", must be a number of tokens`},
		{head + "1,2,", theirs, "f:3: completion_tokens is empty, must be a number of tokens"},
		{object + `{"time":1,"prompt_tokens":null,"completion_tokens":3}`, theirs, "f:2: prompt_tokens is empty, must be a number of tokens"},
		{object + `{"time":1,"prompt_tokens":[4],"completion_tokens":3}`, theirs, `f:2: prompt_tokens is "[4]", must be a number of tokens`},
		{head + "soon,2,3", theirs, `f:3: time is "soon", must be a number of seconds, or a date and time such as 2026-01-31T18:15:46.68Z; --arrival-format reads other dates`},
		{head + "soon,2,3", theirs + ",arrival_unit=ms", `f:3: time is "soon", must be a number of ms`},
		{head + "2026-01-31T18:15:46Z,2,3", theirs, `f:3: time is "2026-01-31T18:15:46Z", a date and time with a zone; the rows before had a number, must have the same on all`},
		{"time,prompt_tokens,completion_tokens\n1767225600000,2,3", theirs, "f:2: time is 1767225600000, which are more than 3000 years in seconds; set arrival_unit=ms"},
		{head + "1,2", theirs, "f:3: 2 fields, must be 3"},
		{"a;b\n\"1\"2;3", "input=a,output=b", "must be a semicolon"},
		{"a,b,h\n200,1,7", "input=a,output=b,hash=h", "f:2: number of hash ids is 1 for 200 prompt tokens, must be 12 or 13 with blocks of 16 tokens; --trace-block-size 128 fits all rows"},
		{"a,b,p\n2,1,soon", "input=a,output=b,priority=p", `f:2: p is "soon", must be a whole number of 32 bits`},
		{"a,b,c\n2,1," + strings.Repeat("x", 65), "input=a,output=b,class=c", "f:2: c: class is"},
		{"", theirs, "f: no requests in the file, must have at least one"},
		{"[1]", theirs, `no column "time", nor any other`},
		{head, "input=a", "lacks input or output"},
		{head, "inputs=a,output=b", `columns have "inputs", which is unknown (did you mean input?)`},
		{head, "input=a,input=b", "columns have input twice"},
		{head, "input=a,output=", `columns have "output=", must be arrival=COLUMN`},
		{head, "input=a,output=b,arrival_unit=ms", "columns have arrival_unit and no arrival"},
		{head, "arrival=a,input=a,output=b,arrival_unit=h", `arrival_unit is "h", must be one of s ms us ns`},
		{head, `"`, "must be arrival=COLUMN"},
	} {
		if got := readColumns(c.text, c.columns, formats.LeftOpen{}); !strings.Contains(got, c.want) {
			t.Errorf("%q of %q: got\n%s\nwant\n%s", c.columns, c.text, got, c.want)
		}
	}
	if got := readColumns(head, theirs, formats.LeftOpen{Rate: 2}); !strings.Contains(got, "--columns names arrivals") {
		t.Error(got)
	}
	if got := describe("f", head, formats.Options{Format: "azure", LeftOpen: formats.LeftOpen{Columns: theirs}}); !strings.Contains(got, "columns are said, and that the format is azure") {
		t.Error(got)
	}
}

// No file causes a panic with any --columns.
func FuzzColumns(f *testing.F) {
	f.Add("time;prompt_tokens;completion_tokens\n1;2;3\n", theirs)
	f.Add(`{"t":1,"u":{"a":2,"b":3},"h":["x"]}`, "arrival=t,input=u.a,output=u.b,hash=h,session=t")
	f.Add("[{\"a\":1}]", "input=a,output=a")
	f.Add("{\n\"a\":\"\\ud800\"}", "input=a,output=a,hash=a")
	f.Fuzz(func(_ *testing.T, text, columns string) {
		readColumns(text, columns, formats.LeftOpen{})
		readColumns(text, columns, formats.LeftOpen{SkipBad: -1, Sessions: "chain"})
	})
}

// --columns can name the class and the priority of requests. An empty cell sets no class and no priority.
func TestColumnsOfClasses(t *testing.T) {
	for _, text := range []string{
		"a,b,k,p\n7,8,Team A/é,2\n9,1,,\n7,8,b,-1\n7,8,Team A/é,2\n",
		`{"a":7,"b":8,"k":"Team A/é","p":2}{"a":9,"b":1,"k":null,"p":null}{"a":7,"b":8,"k":"b","p":-1}{"a":7,"b":8,"k":"Team A/é","p":"2"}`,
	} {
		text = strings.ReplaceAll(text, "}{", "}\n{")
		w, err := Read(strings.NewReader(text), "f", formats.Options{LeftOpen: formats.LeftOpen{Columns: "input=a,output=b,class=k,priority=p"}, TraceBlock: 16})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, class := range w.ClassesOf {
			got = append(got, w.Classes[class])
		}
		if want := []string{"Team-A---", "default", "b", "Team-A---"}; !slices.Equal(got, want) || !slices.Equal(w.Priorities, []int32{2, 0, -1, 2}) {
			t.Errorf("%q has classes %q and priorities %v, want %q", text, got, w.Priorities, want)
		}
	}
}
