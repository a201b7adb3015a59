package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reported contains go test reports about four packages. Package a has passing, failing and skipped tests, package b
// does not compile, package c has no tests, and package d passes.
const reported = `{"Action":"start","Package":"github.com/replay-llm/replay/a"}
{"Action":"run","Package":"github.com/replay-llm/replay/a","Test":"TestGood"}
{"Action":"output","Package":"github.com/replay-llm/replay/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"github.com/replay-llm/replay/a","Test":"TestGood","Output":"    a_test.go:3: fine\n"}
{"Action":"output","Package":"github.com/replay-llm/replay/a","Test":"TestGood","Output":"--- PASS: TestGood (0.00s)\n"}
{"Action":"pass","Package":"github.com/replay-llm/replay/a","Test":"TestGood"}
{"Action":"output","Package":"github.com/replay-llm/replay/a","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"github.com/replay-llm/replay/a","Test":"TestBad","Output":"    a_test.go:7: 2, want 3\n"}
{"Action":"output","Package":"github.com/replay-llm/replay/a","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"github.com/replay-llm/replay/a","Test":"TestBad"}
{"Action":"output","Package":"github.com/replay-llm/replay/a","Test":"TestSkips/one","Output":"=== RUN   TestSkips/one\n"}
{"Action":"output","Package":"github.com/replay-llm/replay/a","Test":"TestSkips/one","Output":"    a_test.go:9: skipped: node is not installed\n"}
{"Action":"output","Package":"github.com/replay-llm/replay/a","Test":"TestSkips/one","Output":"    --- SKIP: TestSkips/one (0.00s)\n"}
{"Action":"skip","Package":"github.com/replay-llm/replay/a","Test":"TestSkips/one"}
{"Action":"skip","Package":"github.com/replay-llm/replay/a","Test":"TestSilent"}
{"Action":"output","Package":"github.com/replay-llm/replay/a","Output":"FAIL\n"}
{"Action":"output","Package":"github.com/replay-llm/replay/a","Output":"FAIL\tgithub.com/replay-llm/replay/a\t0.1s\n"}
{"Action":"fail","Package":"github.com/replay-llm/replay/a"}
{"ImportPath":"github.com/replay-llm/replay/b","Action":"build-output","Output":"b.go:1: syntax error\n"}
{"ImportPath":"github.com/replay-llm/replay/b","Action":"build-fail"}
go: a warning
{"Action":"output","Package":"github.com/replay-llm/replay/c","Output":"?   \tgithub.com/replay-llm/replay/c\t[no test files]\n"}
{"Action":"skip","Package":"github.com/replay-llm/replay/c"}
{"Action":"output","Package":"github.com/replay-llm/replay/d","Output":"PASS\n"}
{"Action":"output","Package":"github.com/replay-llm/replay/d","Output":"ok  \tgithub.com/replay-llm/replay/d\t0.1s\n"}
{"Action":"pass","Package":"github.com/replay-llm/replay/d"}
`

// The output equals the output of go test. The table has each skipped test with its steps and its reason.
func TestSkips(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skips.tsv")
	var out, errs bytes.Buffer
	for _, step := range []string{"plain", "race"} {
		out.Reset()
		if code := run([]string{"-step", step, "-file", file}, strings.NewReader(reported), &out, &errs); code != 0 {
			t.Fatalf("exit %d: %s", code, &errs)
		}
	}
	const want = `    a_test.go:7: 2, want 3
--- FAIL: TestBad (0.00s)
FAIL
FAIL	github.com/replay-llm/replay/a	0.1s
b.go:1: syntax error
go: a warning
?   	github.com/replay-llm/replay/c	[no test files]
ok  	github.com/replay-llm/replay/d	0.1s
`
	if out.String() != want {
		t.Errorf("prints\n%s\nwant\n%s", &out, want)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("wheel\t\tno Python\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	out.Reset()
	if code := run([]string{"-table", "-file", file}, nil, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	const table = `== skipped: 3
Test             Steps        Reason
-                wheel        no Python
a.TestSilent     plain, race  no reason given
a.TestSkips/one  plain, race  node is not installed
`
	if out.String() != table {
		t.Errorf("prints\n%s\nwant\n%s", &out, table)
	}
	out.Reset()
	if code := run([]string{"-table", "-file", file + ".absent"}, nil, &out, &errs); code != 0 || out.String() != "== skipped: 0\n" {
		t.Errorf("exit %d: %s%s", code, &out, &errs)
	}
}
