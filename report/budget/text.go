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

// WriteText writes a table for people.
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

// shortNumber is a number as people read it.
func shortNumber(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return formatNumber(v)
	}
	return strconv.FormatFloat(v, 'g', 7, 64)
}

// changeText is how far the value is from its baseline.
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

// Message returns one line on how a budget is exceeded.
func (l *Line) Message() string {
	text := fmt.Sprintf("%s is %s", l.Key, formatNumber(l.Value))
	if l.HasBaseline {
		text += fmt.Sprintf(", was %s: %s", formatNumber(l.Baseline), l.changeText())
	}
	return text + ", budget " + l.Text
}

// changedMessage explains what it means that requests were served otherwise than in the baseline.
const changedMessage = "requests went other ways than in the baseline; replay diff says which, replay check --update takes them over"

// WriteGitHub writes a workflow command for each budget exceeded, which GitHub
// shows beside the line of the file. Path is where that is in the repository.
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

// escapeData and property escape what workflow commands give a meaning to.
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(s))
}

type testSuites struct {
	XMLName xml.Name    `xml:"testsuites"`
	Suites  []testSuite `xml:"testsuite"`
}

type testSuite struct {
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Cases    []testCase `xml:"testcase"`
}

type testCase struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	File    string   `xml:"file,attr"`
	Line    int      `xml:"line,attr,omitempty"`
	Failure *failure `xml:"failure"`
	Out     string   `xml:"system-out,omitempty"`
}

type failure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
}

// WriteJUnit writes a test suite with a case for each budget, and one for the
// behaviour when that must stay.
func (o *Outcome) WriteJUnit(w io.Writer) error {
	suite := testSuite{Name: "replay check " + o.File.Path}
	add := func(c testCase) {
		c.Class, c.File = "replay.check", o.File.Path
		suite.Tests++
		if c.Failure != nil {
			suite.Failures++
		}
		suite.Cases = append(suite.Cases, c)
	}
	for i := range o.Lines {
		l := &o.Lines[i]
		c := testCase{Name: l.Key + " " + l.Text, Line: l.Line, Out: strconv.FormatFloat(l.Value, 'g', -1, 64)}
		if l.Exceeded {
			c.Failure = &failure{Message: l.Message(), Type: "budget"}
		}
		add(c)
	}
	if o.File.Exact && o.Changed != Unknown {
		c := testCase{Name: "behaviour"}
		if o.Changed == Changed {
			c.Failure = &failure{Message: changedMessage, Type: "behaviour"}
		}
		add(c)
	}
	text, err := xml.MarshalIndent(testSuites{Suites: []testSuite{suite}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}
