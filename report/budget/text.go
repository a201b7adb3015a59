package budget

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/table"
)

// WriteText writes the outcome as a text table.
func (o *Outcome) WriteText(w io.Writer) error {
	var b bytes.Buffer
	t := table.NewLeft("metric", "budget", "baseline", "value", "change", "")
	t.Flush = true
	for i := range o.Lines {
		l := &o.Lines[i]
		verdict := "ok"
		if l.Exceeded {
			verdict = "EXCEEDED"
		}
		baseline, change := "-", "-"
		if l.HasBaseline {
			baseline, change = shortNumber(l.Baseline), l.changeText()
		}
		t.Add(l.Key, l.Text, baseline, shortNumber(l.Value), change, verdict)
	}
	b.WriteString(t.Text())
	if o.File.Exact || o.Changed != Unknown {
		fmt.Fprintf(&b, "behaviour: %v\n", o.Changed)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// shortNumber formats a number with few digits.
func shortNumber(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return formatNumber(v)
	}
	return strconv.FormatFloat(v, 'g', 7, 64)
}

// changeText formats the change of a value from its baseline.
func (l *Line) changeText() string {
	d := l.Value - l.Baseline
	switch {
	case d == 0:
		return "0"
	case l.Baseline == 0:
		return fmt.Sprintf("%+.4g", d)
	}
	return fmt.Sprintf("%+.4g (%+.2f%%)", d, 100*d/math.Abs(l.Baseline))
}

// Message describes in one line how a budget is exceeded.
func (l *Line) Message() string {
	text := fmt.Sprintf("%s is %s", l.Key, formatNumber(l.Value))
	if l.HasBaseline {
		text += fmt.Sprintf(", was %s: %s", formatNumber(l.Baseline), l.changeText())
	}
	return text + ", budget " + l.Text
}

// changedMessage explains a change of routing or scheduling.
const changedMessage = "routing or scheduling differs from the baseline; replay diff lists the requests, replay check --update accepts the new run"

// WriteGitHub writes a GitHub workflow command for each exceeded budget. GitHub shows it next to the line of the
// budget file. Path is the path of this file in the repository.
func (o *Outcome) WriteGitHub(w io.Writer, path string) error {
	var b bytes.Buffer
	for i := range o.Lines {
		if l := &o.Lines[i]; l.Exceeded {
			fmt.Fprintf(&b, "::error file=%s,line=%d,title=%s::%s\n", escapeProperty(path), l.Line, escapeProperty("budget of "+l.Key+" exceeded"), escapeData(l.Message()))
		}
	}
	if o.Changed == Changed {
		level := "warning"
		if o.File.Exact {
			level = "error"
		}
		fmt.Fprintf(&b, "::%s file=%s,title=behaviour changed::%s\n", level, escapeProperty(path), escapeData(changedMessage))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// escapeData and property escape the special characters of workflow commands.
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(s))
}

// testCase is a case of a JUnit test suite.
type testCase struct {
	name          string
	line          int    // line number in the budget file; 0: none
	failure, kind string // "": it passed
	out           string
}

// WriteJUnit writes a test suite with a case for each budget, and a case for the behaviour if it must not change.
func (o *Outcome) WriteJUnit(w io.Writer) error {
	var cases []testCase
	failures := 0
	for i := range o.Lines {
		l := &o.Lines[i]
		c := testCase{name: l.Key + " " + l.Text, line: l.Line, out: strconv.FormatFloat(l.Value, 'g', -1, 64)}
		if l.Exceeded {
			c.failure, c.kind = l.Message(), "budget"
			failures++
		}
		cases = append(cases, c)
	}
	if o.File.Exact && o.Changed != Unknown {
		c := testCase{name: "behaviour"}
		if o.Changed == Changed {
			c.failure, c.kind = changedMessage, "behaviour"
			failures++
		}
		cases = append(cases, c)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s<testsuites>\n  <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"0\">\n",
		xml.Header, escapeXML("replay check "+o.File.Path), len(cases), failures)
	for i := range cases {
		cases[i].write(&b, o.File.Path)
	}
	b.WriteString("  </testsuite>\n</testsuites>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// write writes the test case. An encoder of structs would add 80 KB to the program.
func (c *testCase) write(b *bytes.Buffer, path string) {
	fmt.Fprintf(b, "    <testcase classname=\"replay.check\" name=\"%s\" file=\"%s\"", escapeXML(c.name), escapeXML(path))
	if c.line > 0 {
		fmt.Fprintf(b, " line=\"%d\"", c.line)
	}
	b.WriteString(">")
	if c.failure != "" {
		fmt.Fprintf(b, "\n      <failure message=\"%s\" type=\"%s\"></failure>", escapeXML(c.failure), c.kind)
	}
	if c.out != "" {
		fmt.Fprintf(b, "\n      <system-out>%s</system-out>", c.out)
	}
	if c.failure != "" || c.out != "" {
		b.WriteString("\n    ")
	}
	b.WriteString("</testcase>\n")
}

// escapeXML escapes the special characters of XML.
func escapeXML(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // writes to a Builder do not fail
	return b.String()
}
