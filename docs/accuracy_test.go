package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// spread returns the least and the greatest first number of a column, from 0, in rows
// that contain all of some texts and none of others.
func spread(t *testing.T, table string, column int, with, without []string) (least, most float64) {
	t.Helper()
	found := false
rows:
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < column+3 {
			continue
		}
		for _, text := range with {
			if !strings.Contains(line, text) {
				continue rows
			}
		}
		for _, text := range without {
			if strings.Contains(line, text) {
				continue rows
			}
		}
		m := regexp.MustCompile(`^ *([+-][0-9.]+) `).FindStringSubmatch(cells[column+1])
		if m == nil {
			continue
		}
		x, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			least, most, found = x, x, true
		}
		least, most = min(least, x), max(most, x)
	}
	if !found {
		t.Fatalf("no row with %q", with)
	}
	return least, most
}

// What the program and docs/trust.md quote of errors is what make accuracy has measured.
func TestQuotedErrors(t *testing.T) {
	page := read(t, "accuracy.md")
	sheets := part(t, page, "<!-- data sheets:", "<!-- end of data sheets")
	fits := part(t, page, "<!-- fits:", "<!-- end of fits")
	program := read(t, filepath.Join("..", "replay", "engines", "assumptions.go"))
	trust := read(t, "trust.md")
	for _, c := range []struct {
		table         string
		column        int
		with, without []string
		in, form      string
	}{
		{sheets, 4, nil, []string{"Kimi", "just started"}, program, "TPOT was %+.0f to %+.0f %% off"},
		{sheets, 4, nil, []string{"Kimi", "just started"}, trust, "| %+.1f to %+.1f %% |"},
		{sheets, 4, []string{"Kimi"}, nil, program, "TPOT was %+.0f to %+.0f %% off"},
		{sheets, 4, []string{"Kimi"}, nil, trust, "| %+.1f to %+.1f %% |"},
		{sheets, 10, nil, []string{"Kimi", "just started"}, program, "TPOT was %+.0f to %+.0f %% off"},
		{fits, 3, []string{"same run", "vllm-"}, nil, trust, "| %+.1f to %+.1f %% on the other half"},
		{fits, 3, []string{"another load"}, nil, trust, "| %+.1f to %+.1f %% |"},
	} {
		least, most := spread(t, c.table, c.column, c.with, c.without)
		if want := fmt.Sprintf(c.form, least, most); !strings.Contains(c.in, want) {
			t.Errorf("rows of docs/accuracy.md with %q are quoted otherwise, want %q", c.with, want)
		}
	}
}
