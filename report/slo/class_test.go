package slo

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/requests"
)

// Objectives of a class apply only to its requests. Each class must reach the required share, so that a rare class
// counts as much as other classes.
func TestObjectivesOfClasses(t *testing.T) {
	of := func(class string, ttft float64) requests.Row {
		r := answered(ttft, 10, 900)
		r.Class = class
		return r
	}
	rows := []requests.Row{of("chat", 100), of("chat", 300), of("batch", 5000), of("batch", 90), of("rest", 9999), of("batch", 80), of("batch", 70)}
	result := &harness.Result{Report: &collector.Report{DurationMS: 1000}}
	objectives, err := Parse("chat:each:ttft=200ms,batch:each:ttft=10s,batch:p50:ttft=1s,chat:max:e2e=1s,none:p99:ttft=1s")
	if err != nil {
		t.Fatal(err)
	}
	o := Judge(objectives, 0.8, rows, result)
	if o.Arrived != 6 || o.Met != 5 || o.Attainment < 0.8 || o.Holds() {
		t.Errorf("%+v, want 5 of 6 to meet theirs, and too few of chat", o)
	}
	if rows[4].SLO != requests.Unjudged || rows[1].SLOMissed != "ttft" {
		t.Errorf("verdicts %v and %q, want none of a request without objectives, and ttft missed", rows[4].SLO, rows[1].SLOMissed)
	}
	if got := o.Missed(); !strings.HasPrefix(got, "1 of 2 requests of class chat met their objectives, expected 80.00%; none p99 ttft") {
		t.Errorf("missed: %q", got)
	}
	result.Report.Add(append(o.Fields(), collector.Of(ClassesKey, "batch,chat,none"))...)
	back := ReadOutcome(result.Report)
	if back == nil || len(back.Objectives) != 5 || back.Overall {
		t.Fatalf("read back: %+v, want 5 objectives, one missed", back)
	}
	for _, j := range back.Objectives {
		if want := j.Class != "none"; j.Statistic != "" && j.Met != want {
			t.Errorf("%v: met %v, want %v", j.Objective, j.Met, want)
		}
	}
}

func TestParseRefusesClasses(t *testing.T) {
	for text, want := range map[string]string{
		"chat:p97:ttft=1s":                       `statistic is "p97"`,
		"chat:p99:itl=1s":                        "not pooled",
		"c t:p99:ttft=1s":                        `class is "c t"`,
		":p99:ttft=1s":                           `class is ""`,
		"each:ttft=1s":                           `statistic is "each"`,
		"chat:each:ttft=1s,chat:each:ttft=2s":    "a second limit",
		"chat:p99:speed=1s":                      "must be one of ttft",
		"chat:p99:more:ttft=1s":                  `metric is "more:ttft"`,
		"chat:p99:ttft=1s,p99:ttft=2s,ttft=3000": "with its unit",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
	objectives, err := Parse("chatt:p99:ttft=1s")
	if err != nil {
		t.Fatal(err)
	}
	for want, classes := range map[string][]string{"requires a workload with classes": nil, "did you mean chat?": {"default", "chat"}} {
		if err := CheckClasses(objectives, classes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}
