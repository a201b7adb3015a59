package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/optional"
)

var (
	browser = flag.String("browser", "", "open the site in a `folder` in a real browser")
	axeFile = flag.String("axe", "", "axe.min.js of the npm package axe-core, which checks pages for accessibility")
)

// driver opens pages one after the other in a frame, and reports the result of each page to the server.
const driver = `<body><iframe id="f" width="%d" height="1200"></iframe><img src="/held"><script>
(async () => {
  for (const page of %s) {
    await new Promise((ok) => { f.onload = ok; f.src = "/site/" + page; });
    const w = f.contentWindow, wrong = [];
    const foreign = w.performance.getEntriesByType("resource").filter((e) => !e.name.startsWith(location.origin + "/site/"));
    if (foreign.length) wrong.push("loads " + foreign.map((e) => e.name));
    const root = w.document.documentElement;
    if (root.scrollWidth > root.clientWidth) wrong.push("is " + root.scrollWidth + " wide, in " + root.clientWidth);
    const broken = [...w.document.images].filter((i) => i.complete && !i.naturalWidth);
    if (broken.length) wrong.push("does not show " + broken.map((i) => i.src));
    if (page.startsWith("search.html?")) {
      for (let i = 0; i < 200 && !w.document.querySelector("#search-results .excerpt mark"); i++) await new Promise((ok) => setTimeout(ok, 20));
      if (!w.document.querySelector("#search-results .excerpt mark")) wrong.push("finds nothing, or shows no excerpt");
    }
    for (const pre of w.document.querySelectorAll(".highlight pre")) {
      const copied = pre.parentNode.querySelector(".copy")?.dataset.text, text = pre.textContent;
      if (!copied) wrong.push("has no button that copies " + text.slice(0, 40));
      else if (/^\$ /m.test(text) ? /^\$ /m.test(copied) || !text.includes("$ " + copied.split("\n")[0] + "\n") : copied !== text) wrong.push("copies " + copied + " of " + text);
      const cut = [...pre.querySelectorAll("span:not(.go)")].find((s) => s.textContent.trim() && s.getBoundingClientRect().right > pre.getBoundingClientRect().right + 1);
      if (cut && !pre.querySelector(".go")) wrong.push("does not wrap " + cut.textContent);
    }
    if (page === "index.html" && w.innerWidth > 1000) {
      const end = w.document.querySelector("article").getBoundingClientRect().bottom;
      if (end > 900) wrong.push("is " + end + " high, must be at most 900");
      if (w.document.querySelectorAll(".jobs a").length !== 3 || !w.document.querySelector("article img")) wrong.push("has not three jobs and a picture");
    }
    const axe = w.innerWidth > 1000 && await fetch("/axe");
    if (axe && axe.ok) {
      w.eval(await axe.text());
      const { violations } = await w.axe.run(w.document, { iframes: false });
      wrong.push(...violations.map((v) => v.impact + " " + v.id + ": " + v.nodes.slice(0, 2).map((n) => n.html.slice(0, 160) + " " + n.failureSummary.slice(0, 200)).join(" | ")));
    }
    await fetch("/seen", { method: "POST", body: JSON.stringify({ page, wrong }) });
  }
})().finally(() => fetch("/done", { method: "POST" }));
</script>`

// No page loads a resource from a different host, logs an error, or is wider than the screen. All pictures load, and
// the search finds pages. The test uses a real browser with a wide and a narrow screen.
func TestBrowser(t *testing.T) {
	if *browser == "" {
		t.Skip("skipped: only with -browser and the folder of a site (make docs-site browser)")
	}
	chromium := optional.Program(t, "chromium", "--version")
	found, err := checkSite(*browser)
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{"search.html?q=preemption"}
	for name := range found.anchors {
		if !strings.HasPrefix(name, "gallery/") { // the tests of report/html cover these pages
			pages = append(pages, name)
		}
	}
	slices.Sort(pages)
	for _, width := range []int{1400, 390} {
		t.Run(fmt.Sprint(width), func(t *testing.T) { openPages(t, chromium, pages, width) })
	}
	t.Run("dark", func(t *testing.T) { openPages(t, chromium, pages, 1400, "--blink-settings=preferredColorScheme=0") })
	t.Run("file", func(t *testing.T) { searchFile(t, chromium) })
}

// openPages opens pages in frames of the given width, in a browser with the given flags.
func openPages(t *testing.T, chromium string, pages []string, width int, flags ...string) {
	list, err := json.Marshal(pages)
	if err != nil {
		t.Fatal(err)
	}
	done, seen := make(chan struct{}), 0
	files := http.StripPrefix("/site/", http.FileServer(http.Dir(*browser)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/site/"):
			files.ServeHTTP(w, r)
		case r.URL.Path == "/axe" && *axeFile != "":
			http.ServeFile(w, r, *axeFile)
		case r.URL.Path == "/driver":
			fmt.Fprintf(w, driver, width, list)
		case r.URL.Path == "/seen":
			var report struct {
				Page  string
				Wrong []string
			}
			if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
				t.Error(err)
			}
			for _, wrong := range report.Wrong {
				t.Errorf("%s %s", report.Page, wrong)
			}
			seen++ // the driver reports one page at a time
		case r.URL.Path == "/done":
			close(done)
		case r.URL.Path == "/held": // this request ends after the driver is done, so that the page keeps loading
			<-done
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	said := dump(t, chromium, server.URL+"/driver", flags...).said
	if strings.Contains(said, "CONSOLE") {
		t.Errorf("pages complain: %.4000s", said)
	}
	if seen != len(pages) {
		t.Errorf("%d pages of %d", seen, len(pages))
	}
}

// searchFile searches in the site with a file URL.
func searchFile(t *testing.T, chromium string) {
	folder, err := filepath.Abs(*browser)
	if err != nil {
		t.Fatal(err)
	}
	page := dump(t, chromium, "file://"+filepath.ToSlash(folder)+"/search.html?q=preemption", "--virtual-time-budget=10000")
	if strings.Contains(page.said, "CONSOLE") {
		t.Errorf("the page complains: %.2000s", page.said)
	}
	if excerpts := strings.Count(page.text, "<mark>"); excerpts < 10 {
		t.Errorf("%d words are marked in excerpts, must be at least 10", excerpts)
	}
	if hits := len(regexp.MustCompile(`<li class="kind-`).FindAllString(page.text, -1)); hits < 10 {
		t.Errorf("%d hits", hits)
	}
}

// drawn contains the DOM of a page and the log of the browser.
type drawn struct{ text, said string }

// dump opens a URL in the browser.
func dump(t *testing.T, chromium, address string, flags ...string) drawn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute) // axe takes one or two seconds per page
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, append(flags, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(), "--window-size=1500,1300", "--enable-logging=stderr", "--dump-dom", address)...)
	var said strings.Builder
	cmd.Stderr = &said
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %.2000s", err, said.String())
	}
	return drawn{string(dom), said.String()}
}
