// Package html draws recorded runs on one page that needs no network: it contains all data, scripts and the chart
// library.
//
// The library is uPlot (assets/uPlot.LICENSE). uPlot draws thousands of points in milliseconds, is maintained, and
// has 50 KB. Other libraries would be most of the page.
//
// Read page.go, then data.go (the content of the page), curves.go (distributions), objectives.go, overtime.go,
// scaling.go, tasks.go. sheet.go is the page of a sweep or a plan, answer.go the part of a plan above its tables,
// standalone.go the explorer's page with the simulator. assets/page.js with assets/charts.js and assets/scaling.js,
// assets/tasks.js, assets/answer.js and assets/sheet.js draw them; assets/common.js has the shared functions.
// assets/explore.js is the explorer, with its fields in assets/knobs.js, its result in assets/screen.js, its search
// for a cluster in assets/smallest.js and its sweep in assets/sweep.js. The explorer sends its questions to
// assets/server.js or assets/local.js (with assets/worker.js).
package html

import (
	"bytes"
	"compress/gzip"
	_ "embed" // assets.json.gz
	htmltext "html"
	"io"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/ledger"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/scaling"
	"github.com/replay-llm/replay/report/series"
	"github.com/replay-llm/replay/report/tasks"
)

// packedAssets holds the files of assets by name, without comments, as one compressed JSON object. With -rewrite,
// TestAssetsArePacked writes assets.json.gz.
//
//go:embed assets.json.gz
var packedAssets []byte

// Run is a recorded run to be drawn.
type Run struct {
	Name   string
	Facts  [][2]string // what it was made of, to be read by people
	Trace  string
	Report *collector.Report
	Rows   []requests.Row
	Series *series.File // nil: nothing is drawn over time
	Faults []float64    // times of faults, in ms
	// Scaling holds the actions of the autoscalers; nil: none.
	Scaling *scaling.Study
	Tasks   *tasks.Study // nil: its requests are no tasks
	Log     *ledger.Log  // the passes that computed each prompt; nil: unknown
	Paired  *diff.Paired // against the first run; nil: not compared
}

// Page is the content of the page in addition to the runs.
type Page struct {
	Title string
	Made  time.Time // zero: not said
}

// Write writes the page.
func Write(w io.Writer, p Page, runs []Run) error {
	data := page{Title: p.Title, Parts: partNames(runs), Curve: curveQuantiles(), Drawn: curveNames(runs)}
	if !p.Made.IsZero() {
		data.Made = p.Made.UTC().Format("2006-01-02 15:04 UTC")
	}
	for i := range runs {
		data.Runs = append(data.Runs, newRun(&runs[i], data.Drawn))
	}
	return writePage(w, &framed{title: p.Title, scripts: []string{"charts.js", "scaling.js", "tasks.js", "page.js"}}, data)
}

// framed is the content of the frame of a page.
type framed struct {
	title   string
	scripts []string // that draw its data
	parts   string   // content for the scripts in addition to the data
	alone   bool     // the page is a file with a policy against loading any resource
	head    string   // content of the head of the page in addition to that of all pages
	styles  []string // in addition to that of all pages
}

// writePage writes a page of data.
func writePage(w io.Writer, f *framed, data any) error {
	text, err := json.Marshal(data) // escapes <, > and &, so that no text can end the script element
	if err != nil {
		return err
	}
	assets, err := readAssets()
	if err != nil {
		return err
	}
	inside := map[string]string{"TITLE": htmltext.EscapeString(f.title), "DATA": string(text), "PARTS": f.parts, "HEAD": f.head}
	for mark, names := range map[string][]string{
		"LICENSE": {"uPlot.LICENSE"}, "UPLOT": {"uPlot.iife.min.js"}, "UPLOTCSS": {"uPlot.min.css"}, "CSS": append([]string{"page.css"}, f.styles...), "COMMON": {"common.js"}, "JS": f.scripts,
	} {
		for _, name := range names {
			inside[mark] += assets[name]
		}
	}
	if f.alone {
		inside["HEAD"] = policyAlone(inside["UPLOT"], inside["COMMON"], inside["JS"])
	}
	return fillFrame(w, assets["page.html"], inside)
}

// readAssets returns the embedded files by name.
func readAssets() (map[string]string, error) {
	r, err := gzip.NewReader(bytes.NewReader(packedAssets))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var all map[string]string
	err = json.Unmarshal(text, &all)
	return all, err
}

// fillFrame writes frame with {{MARK}} replaced by the text of each mark.
func fillFrame(w io.Writer, frame string, inside map[string]string) error {
	for {
		before, rest, found := strings.Cut(frame, "{{")
		if _, err := io.WriteString(w, before); err != nil || !found {
			return err
		}
		mark, after, _ := strings.Cut(rest, "}}")
		text, ok := inside[mark]
		if !ok {
			return excerpt.Errorf("the page has a mark %q that nothing stands for", mark)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		frame = after
	}
}

// DrawnOf returns the data of a run for the page, for writing as JSON.
func DrawnOf(r *Run) any {
	return newRun(r, curveNames([]Run{*r}))
}

// noIcon prevents browsers from requesting an icon from the server.
const noIcon = `<link rel="icon" href="data:,">` + "\n"

// explorerScripts returns the scripts of the explorer, with the script of a backend.
func explorerScripts(backend string) []string {
	return []string{"charts.js", backend, "knobs.js", "screen.js", "answer.js", "smallest.js", "sweep.js", "explore.js"}
}

// WriteExplorer writes the page on which settings are changed; it requests runs from its server. data is its initial
// content.
func WriteExplorer(w io.Writer, data any) error {
	return writePage(w, &framed{title: "replay explorer", scripts: explorerScripts("server.js"), styles: []string{"explore.css"}, head: noIcon}, data)
}
