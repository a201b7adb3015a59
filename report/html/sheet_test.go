package html

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/table"
)

// sheetText returns a page of one table with this number of rows.
func sheetText(t *testing.T, rows int) string {
	t.Helper()
	made := &table.Table{Columns: []table.Column{
		{Name: "router", Setting: true}, {Name: "workers", Number: true, Setting: true}, {Name: "p99_ttft_ms", Number: true}, {Name: "reason"},
	}}
	for i := range rows {
		made.Rows = append(made.Rows, []any{[]string{"kv", "</script>"}[i%2], float64(i / 2), 100 / float64(1+i), nil})
	}
	if rows > 0 {
		made.Rows[0][2], made.Rows[0][3] = nil, "does not fit"
	}
	var b strings.Builder
	if err := WriteSheet(&b, &SheetPage{Title: "a & b", Facts: []Facts{{Title: "All", Rows: [][2]string{{"one", "1 < 2"}}}}, Tables: []SheetTable{{
		Title: "cells", Table: made, X: "workers", Y: "no such column", By: "router", Few: []string{"p99_ttft_ms"},
		Mark: "router", Marked: []Mark{{"</script>", "ends <scripts>"}}, Rest: "the rest", Limits: map[string]float64{"p99_ttft_ms": 50},
	}}}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A page contains its rows, for any text in them, and loads no external resource.
func TestSheet(t *testing.T) {
	text := sheetText(t, 6)
	_, data, _ := strings.Cut(text, `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	var page struct {
		Facts  []Facts
		Tables []SheetTable
	}
	if err := json.Unmarshal([]byte(data), &page); err != nil {
		t.Fatal(err)
	}
	got := page.Tables[0]
	if page.Facts[0].Rows[0][1] != "1 < 2" || len(got.Rows) != 6 || got.Rows[1][0] != "</script>" || got.Rows[0][2] != nil || got.X != "workers" || got.Y != "p99_ttft_ms" || got.Mark != "router" || got.Marked[0].Value != "</script>" || got.Limits["p99_ttft_ms"] != 50 {
		t.Errorf("%+v", page)
	}
	if strings.Contains(text, "http://") && strings.Count(text, "http://") != strings.Count(text, "http://www.w3.org/") || strings.Contains(text, "{{") {
		t.Error("the page asks for something else, or has marks left")
	}
	if strings.Contains(text, "<pre") || strings.Contains(text, `el("pre`) {
		t.Error("the page has text of a terminal")
	}
	if !strings.Contains(text, "<title>a &amp; b</title>") {
		t.Error("the title is not escaped")
	}
	sheetText(t, 0)
}

// answerText returns a page of a plan with two objectives.
func answerText(t *testing.T) string {
	t.Helper()
	a := &Answer{
		Number: "4 GPUs", Under: "4 workers", Verdict: "4 GPUs <hold>", Good: new(true), Across: "GPUs", Target: 0.95,
		Chances: []Chance{{Name: "1 worker", Across: 1, GPUs: 1}, {Name: "4 workers", Across: 4, GPUs: 4, Share: 1, Chosen: true}, {Name: "8 workers", Group: "tp=2", Across: 16, GPUs: 16, Share: 0.9}},
		Lists:   []List{{"Why", []string{"because"}}},
		Facts:   []Facts{{"Asked", [][2]string{{"command", "replay plan " + strings.Repeat("x", 200)}}}},
		Grids:   []Grid{{"Objectives", []string{"", "limit", "4 workers"}, [][]string{{"p99 TTFT", "1 s", "✓ 12 ms"}}}},
		Limits:  []Limit{{"p99 TTFT", "ms", 1000}, {"requests that meet theirs", "share", 0.99}},
		Cluster: []Cluster{
			{Name: "1 worker", Across: 1, GPUs: 1, Values: []float64{70_000, 0}, Missed: "p99 ttft is 70000.00 ms"},
			{Name: "4 workers", Across: 4, GPUs: 4, Values: []float64{12, 1}, Low: []float64{10, 0.99}, High: []float64{20, 1}, Chosen: "answer"},
		},
	}
	var b strings.Builder
	if err := WriteSheet(&b, &SheetPage{Title: "Plan", Answer: a}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The page of a plan has its answer as data, and loads no external resource.
func TestAnswer(t *testing.T) {
	text := answerText(t)
	_, data, _ := strings.Cut(text, `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	var page SheetPage
	if err := json.Unmarshal([]byte(data), &page); err != nil || page.Answer == nil {
		t.Fatalf("%v: %.200s", err, data)
	}
	if page.Answer.Verdict != "4 GPUs <hold>" || len(page.Answer.Limits) != 2 || len(page.Answer.Cluster) != 2 {
		t.Errorf("%+v", page.Answer)
	}
	for _, bad := range []string{"src=", "href=", "fetch(", "<hold>", "{{"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
}

// sidesText returns a page of a measured run next to its simulation, as replay validate makes it.
func sidesText(t *testing.T) string {
	t.Helper()
	each := &table.Table{Columns: []table.Column{
		{Name: "request", Setting: true}, {Name: "server", Setting: true}, {Name: "measured_ttft_ms", Number: true}, {Name: "simulated_ttft_ms", Number: true}, {Name: "ttft_off", Number: true},
	}}
	over := &table.Table{Columns: []table.Column{{Name: "side", Setting: true}, {Name: "time_s", Number: true}, {Name: "ttft_ms", Number: true}}}
	for i := range 300 {
		off := any(0.01 * float64(i%7))
		if i%50 == 0 {
			off = nil // an answer in one piece has no first token
		}
		each.Rows = append(each.Rows, []any{strings.Repeat("0123456789abcdef", 2) + fmt.Sprint(i), fmt.Sprintf("server %d", i%4), 40 + float64(i%90), 44 + float64(i%80), off})
	}
	for i := range 60 {
		over.Rows = append(over.Rows, []any{"measured", float64(i), 40 + float64(i%9)}, []any{"simulated", float64(i), 44 + float64(i%8)})
	}
	facts := []Facts{
		{Title: "What was replayed", Rows: [][2]string{{"requests", "300"}, {"pass times", "profile " + strings.Repeat("of_a_long_name", 6) + ".json"}}},
		{Title: "Measured, simulated, off", Rows: [][2]string{{"TTFT mean", "40.10 ms, 44.00 ms, +9.7 %; repeats -7.0 % to +25.0 %"}, {"share of 10.0.0.1:8000", "50.00 %, 49.00 %, -1.00 pt"}}},
	}
	var b strings.Builder
	if err := WriteSheet(&b, &SheetPage{Title: "Measured and simulated: a", Facts: facts, Tables: []SheetTable{
		{Title: "Each request", Table: each, X: "measured_ttft_ms", Y: "simulated_ttft_ms", By: "server", Few: []string{"measured_ttft_ms", "simulated_ttft_ms", "ttft_off"}},
		{Title: "Over time", Table: over, X: "time_s", Y: "ttft_ms", By: "side", Few: []string{"ttft_ms"}},
	}}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
