package html

import (
	"context"
	"flag"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/labels"
	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/requests"
)

var (
	browser = flag.Bool("browser", false, "draw pages in a real browser")
	shots   = flag.String("screenshots", "", "directory for pictures of them")
	gallery = flag.String("gallery", "", "directory of pages that commands wrote, to draw in addition")
	axeFile = flag.String("axe", "", "axe.min.js of the npm package axe-core, which checks pages for accessibility")
)

// runAxe runs axe-core on a page with all of its parts open, and stores the violations.
const runAxe = `<script>%s</script><script>onload = async () => {
  for (const d of document.querySelectorAll("details")) d.open = true;
  await new Promise((ok) => setTimeout(ok, 200));
  const { violations, passes } = await axe.run();
  document.body.dataset.passes = String(passes.length);
  document.body.dataset.found = violations.map((v) => v.impact + " " + v.id + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + n.failureSummary).join(" | ")).join("; ");
};</script>`

// axe-core finds no violations on a page of each kind, light and dark.
func TestBrowserAxe(t *testing.T) {
	if !*browser || *axeFile == "" {
		t.Skip("skipped: only with -browser and -axe (make browser AXE=axe.min.js)")
	}
	axe, err := os.ReadFile(*axeFile)
	if err != nil {
		t.Fatal(err)
	}
	chromium := find(t)
	for name, text := range listPages(t) {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(name+"/"+scheme, func(t *testing.T) {
				said := chromium.dump(t, strings.Replace(text, "</body>", fmt.Sprintf(runAxe, axe)+"</body>", 1), scheme, 1400)
				if said("found") != "" {
					t.Error(said("found"))
				}
				if n, err := strconv.Atoi(said("passes")); err != nil || n < 10 {
					t.Errorf("%q rules pass, must be at least 10", said("passes"))
				}
			})
		}
	}
}

// A real browser draws every chart, light and dark, wide and narrow, and no element overflows the page.
func TestBrowser(t *testing.T) {
	if !*browser {
		t.Skip("skipped: only with -browser")
	}
	chromium := find(t)
	pages := listPages(t)
	limits := map[string]int{"scaled": 3, "sheet": 1, "plan": 3, "held": 1 + 1 + 1 + 1, "classed": 4} // curves and distributions of both runs are drawn over each other
	logs := map[string]int{"held": 1}
	words := map[string][]string{ // words in legends and tables before the pointer is over a chart
		"sheet":   {"✗ 1 of 200 are not complete", "does not fit", "limit of p99 TTFT: 50 ms", "✕ &lt;/script&gt;"},
		"held":    {"p99 TTFT ≤ 10 s", "✓ 100 % meet it", "TTFT by percentile, log scale", "median 137 ms, p99 227 ms", "half of them up to 137 ms", "mean 333/s, most", "mean TTFT", "✗ worse", "+50 ms to +50 ms"},
		"classed": {"TTFT of each class by percentile", "chat p99 TTFT ≤ 200 ms", "met objectives", "batch, a &lt;/script&gt;"},
		"scaled":  {"310 of 2,000 requests missed the goal: 200 while workers were starting", "decode 4 → 5", "1.5 s until ready", "ready: most 3"},
		"tasked":  {"Slowest tasks", "19 of 20 tasks completed", "request 19 (:20): 2.04 s", "t&lt;/script&gt;"},
		"sides":   {"Measured and simulated", "Each request", "Over time", "server 3"},
		"plan":    {"misses at least one", "the answer", "Simulated resamples in which all objectives are met", "other settings"},
	}
	for name, text := range pages {
		for _, scheme := range []string{"light", "dark"} {
			widths := []int{1400, 390}
			if *shots != "" {
				widths = append(widths, 768, 2560)
			}
			for _, width := range widths {
				t.Run(fmt.Sprintf("%s/%s/%d", name, scheme, width), func(t *testing.T) {
					t.Parallel()
					p := chromium.open(t, text, scheme, width)
					if p.over > 0 {
						t.Errorf("the page is %d pixels wider than the window", p.over)
					}
					for _, want := range words[name] {
						if width > 500 && !strings.Contains(p.text, want) {
							t.Errorf("the page does not say %q", want)
						}
					}
					known := !strings.HasPrefix(name, "gallery ")
					if want := limits[name]; known && p.limits != want {
						t.Errorf("%d limits are drawn, want %d", p.limits, want)
					}
					if want := logs[name]; known && p.logs != want {
						t.Errorf("%d charts of latencies are logarithmic, want %d", p.logs, want)
					}
					if dark := p.ink == "#e8eaec"; dark != (scheme == "dark") {
						t.Errorf("text is drawn in %q", p.ink)
					}
				})
			}
		}
	}
}

// listPages returns a page of each kind, by name.
func listPages(t *testing.T) map[string]string {
	t.Helper()
	many := made(3000, 40)
	many.Name = "many workers"
	pages := map[string]string{
		"one":     written(t, made(2000, 4)),
		"two":     written(t, made(2000, 4), many),
		"bare":    written(t, bare()),
		"held":    written(t, madeWith(t, 400, "p99:ttft=10s,itl=50ms"), slower(madeWith(t, 400, "p99:ttft=10s,itl=50ms"))),
		"classed": written(t, madeClassed(t), madeClassed(t)),
		"scaled":  written(t, scaledRun()),
		"tasked":  written(t, taskedRun()),
		"sheet":   sheetText(t, 200),
		"sides":   sidesText(t),
		"plan":    answerText(t),
	}
	found, err := filepath.Glob(filepath.Join(*gallery, "*.html"))
	if err != nil || *gallery == "" {
		return pages
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages["gallery "+strings.TrimSuffix(filepath.Base(file), ".html")] = string(text)
	}
	return pages
}

// frames is a page that contains another page in frames of four widths. The outer page counts the labels of charts,
// and lists the labels that overlap or leave their chart or card.
var frames = `<meta name="color-scheme" content="light dark"><body style="margin: 0">%s<script>
const all = [], find = ` + labels.Find + `;
let count = 0;
for (const f of document.querySelectorAll("iframe")) f.onload = () => {
  const { count: n, found } = find(f.contentWindow);
  count += n;
  all.push(...found.map((text) => f.width + ": " + text));
};
onload = () => Object.assign(document.body.dataset, { labels: count, found: all.join("; ") });
</script>`

// Labels of charts never overlap, and never leave their chart, in four widths, light and dark.
func TestBrowserLabels(t *testing.T) {
	if !*browser {
		t.Skip("skipped: only with -browser")
	}
	chromium := find(t)
	for name, text := range listPages(t) {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(name+"/"+scheme, func(t *testing.T) {
				t.Parallel()
				text := html.EscapeString(strings.Replace(text, "<head>", "<head><script>"+labels.Note+"</script>", 1))
				var all strings.Builder
				for _, width := range []int{390, 768, 1400, 2560} {
					fmt.Fprintf(&all, `<iframe width="%d" height="3000" style="border: 0; display: block" srcdoc="%s"></iframe>`, width, text)
				}
				said := chromium.dump(t, fmt.Sprintf(frames, all.String()), scheme, 2600)
				if said("found") != "" {
					t.Error(said("found"))
				}
				if n, err := strconv.Atoi(said("labels")); err != nil || n < 20 {
					t.Errorf("%q labels are drawn, want at least 20", said("labels"))
				}
			})
		}
	}
}

// The scripts and Go format times in the same way, in the largest units that fit. Ticks of time axes are round
// numbers.
func TestBrowserTimes(t *testing.T) {
	if !*browser {
		t.Skip("skipped: only with -browser")
	}
	const script = `<script>
document.body.dataset.times = [0, 0.0126, 3.14159, 12.345, 99.996, 249.6, 999.7, 1041.69, 14_400, 59_949, 162_093, 3_600_000, 3_912_345, 86_400_000, -25.5].map(ms).join("; ");
document.body.dataset.ticks = [[0, 60, 120, 180], [0, 900, 1800], [0, 1800, 3600, 5400, 7200], [0, 3600, 7200, 10800], [0, 900, 12600], [0, 0.5, 1], [0, 15, 30, 45], [0, 30, 120]].map((list) => timeLabels(list).join(" ")).join("; ");
document.body.dataset.steps = timeSteps.filter((v) => v >= 1 && v < 108001).join(" ");
</script></body>`
	said := find(t).dump(t, strings.Replace(written(t, made(20, 1)), "</body>", script, 1), "light", 1400)
	var times []string
	for _, v := range []float64{0, 0.0126, 3.14159, 12.345, 99.996, 249.6, 999.7, 1041.69, 14_400, 59_949, 162_093, 3_600_000, 3_912_345, 86_400_000, -25.5} {
		times = append(times, FormatMS(v))
	}
	if got, want := said("times"), strings.Join(times, "; "); got != want || !strings.Contains(got, "2 min 42 s; 1 h; 1 h 5 min") {
		t.Errorf("%s on the page, %s in Go", got, want)
	}
	if got, want := said("ticks"), "0 1 2 3 min; 0 15 30 min; 0 30 60 90 120 min; 0 1 2 3 h; 0 15 210 min; 0 500 1,000 ms; 0 15 30 45 s; 0 30 120 s"; got != want {
		t.Errorf("ticks are %q, want %q", got, want)
	}
	if got, want := said("steps"), "1 2 5 10 15 30 60 120 300 600 900 1800 3600 7200 18000 36000 54000 108000"; got != want {
		t.Errorf("ticks are %s apart, want %s", got, want)
	}
}

// A page with a million requests opens within three seconds of real time.
func TestBrowserOpensSoon(t *testing.T) {
	if !*browser {
		t.Skip("skipped: only with -browser")
	}
	text := written(t, made(1_000_000, 64))
	chromium := find(t)
	chromium.real = true
	p := chromium.open(t, text, "light", 1400)
	if p.ms > 3000 {
		t.Errorf("drawn after %d ms, want 3000 at most", p.ms)
	}
	t.Logf("%d bytes, drawn %d ms after the browser began to open them", len(text), p.ms)
}

// bare returns a run with only its report and one request.
func bare() Run {
	r := made(1, 1)
	r.Series, r.Facts, r.Rows[0].Parts[0] = nil, nil, requests.Unknown()
	return r
}

// slower returns the run r with each first token 50 ms later.
func slower(r Run) Run {
	before := slices.Clone(r.Rows)
	for i := range r.Rows {
		r.Rows[i].TTFT += 50
		r.Rows[i].First += 50
	}
	r.Paired = diff.PairRows(before, r.Rows)
	return r
}

// program is a browser. Unless real is set, it has a virtual clock that waits for the page.
type program struct {
	path string
	real bool
}

func find(t *testing.T) program {
	t.Helper()
	return program{path: optional.Program(t, "chromium", "--version")}
}

// drawn is the data that a page reports about itself.
type drawn struct {
	ms, over, limits, logs int
	ink, text              string
}

// writeFrame writes a page that shows another page in a frame of the width of a phone, since browser windows cannot
// be that narrow. The outer page prints the data that the inner page reports.
func writeFrame(t *testing.T, file, text string, width int) string {
	t.Helper()
	frame := fmt.Sprintf(`<meta name="color-scheme" content="light dark"><body style="margin: 0"><iframe id="f" width="%d" height="6000" style="border: 0" srcdoc="%s"></iframe>
<script>f.onload = () => Object.assign(document.body.dataset, f.contentDocument.body.dataset);</script>`, width, html.EscapeString(text))
	file = strings.TrimSuffix(file, ".html") + "-frame.html"
	if err := os.WriteFile(file, []byte(frame), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// open draws a page in the browser, and requires all of its charts.
func (p program) open(t *testing.T, text, scheme string, width int) drawn {
	t.Helper()
	said := p.dump(t, text, scheme, width)
	count := func(key string) int {
		n, err := strconv.Atoi(said(key))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var charts, all int
	if _, err := fmt.Sscanf(said("drawn"), "%d of %d", &charts, &all); err != nil || charts != all || all < 1 {
		t.Errorf("%q charts are drawn, want all of at least 1", said("drawn"))
	}
	return drawn{count("ms"), count("over"), count("limits"), count("logs"), said("ink"), said("")}
}

// dump draws a page in the browser, and returns the text of its body without scripts.
func (p program) dump(t *testing.T, text, scheme string, width int) func(key string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	args := []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir=" + filepath.Join(dir, "profile"), "--hide-scrollbars",
		fmt.Sprintf("--window-size=%d,6000", width),
	}
	if !p.real {
		args = append(args, "--virtual-time-budget=3000")
	}
	if scheme == "dark" {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	if width < 500 {
		file = writeFrame(t, file, text, width)
	}
	address := url.URL{Scheme: "file", Path: filepath.ToSlash(file)}
	if *shots != "" {
		name := regexp.MustCompile(`\W+`).ReplaceAllString(t.Name(), "-") + ".png"
		picture := append(args[:len(args):len(args)], "--screenshot="+filepath.Join(*shots, name), address.String())
		if err := exec.CommandContext(ctx, p.path, picture...).Run(); err != nil {
			t.Fatalf("%s: %v", p.path, err)
		}
	}
	dom, err := exec.CommandContext(ctx, p.path, append(args, "--dump-dom", address.String())...).Output()
	if err != nil {
		t.Fatalf("%s: %v", p.path, err)
	}
	body, _, _ := strings.Cut(string(dom), "<script") // the scripts follow the elements that they create
	return func(key string) string {
		if key == "" {
			return body
		}
		m := regexp.MustCompile(`<body[^>]* data-` + key + `="([^"]*)"`).FindSubmatch(dom)
		if m == nil {
			t.Fatalf("the page does not say data-%s: its script has stopped", key)
		}
		return html.UnescapeString(string(m[1]))
	}
}
