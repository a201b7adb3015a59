package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/report/html"
)

// The page has each request, and both sides over time. A repeated run that equals the run has no noise. If the
// tolerance is exceeded, all output is written and the exit code is 3.
func TestValidatePage(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	args := []string{"validate", "measured", "--deployment", "h100.yaml", "--repeat", "measured", "--html", "v.html", "--tolerance", "0.05"}
	var out, errs bytes.Buffer
	if code := run(args, strings.NewReader(""), &out, &errs); code != cli.ExitDiffer {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	if want := "TTFT mean            40.10 ms     54.55 ms   +36.0 %  +0.0 % to +0.0 %"; !strings.Contains(out.String(), want) {
		t.Errorf("%s\nwant %s", &out, want)
	}
	var page html.SheetPage
	readPage(t, "v.html", &page)
	if len(page.Tables) != 2 || len(page.Tables[0].Rows) != 40 {
		t.Fatalf("%d tables, want requests and windows", len(page.Tables))
	}
	if over := page.Tables[1].Rows; len(over) < 20 || over[0][0] != "measured" || over[1][0] != "simulated" || over[0][1] != over[1][1] {
		t.Errorf("%d windows, %v", len(over), over[:2])
	}
	errs.Reset()
	if code := run([]string{"validate", "measured", "--deployment", "h100.yaml", "--repeat", "none"}, strings.NewReader(""), &out, &errs); code != cli.ExitRefused || !strings.Contains(errs.String(), "none: no ") {
		t.Errorf("exit %d: %s, want that there is no such run", code, &errs)
	}
}
