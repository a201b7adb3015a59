package ui

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var browser = flag.Bool("browser", false, "turn the knobs of the page in a real browser")

// driver moves the page in a frame as a person does, and says in its body what came of it.
const driver = `<body><iframe id="f" width="%d" height="3000"></iframe><img src="held"><script>
const wait = (f) => new Promise((ok, no) => { const t0 = Date.now(); const look = () => { let v; try { v = f(); } catch {} if (v) ok(v); else if (Date.now() - t0 > 15000) no(new Error("waited for " + f)); else setTimeout(look, 5); }; look(); });
const said = (k, v) => document.body.setAttribute("data-" + k, v);
const body = () => f.contentDocument.body, text = () => body().innerText;
const problems = [];
const open = async (hash) => {
  f.src = "about:blank";
  await wait(() => f.contentWindow.location.href === "about:blank");
  f.src = "./" + hash;
  await wait(() => body().dataset.redraws === "1");
  f.contentWindow.addEventListener("error", (e) => problems.push(e.message));
  f.contentDocument.addEventListener("securitypolicyviolation", (e) => problems.push(e.violatedDirective));
};
const knob = (flag) => f.contentDocument.querySelector("[name=" + flag + "]");
const turn = async (flag, value) => {
  const before = Number(body().dataset.redraws);
  knob(flag).value = value;
  knob(flag).dispatchEvent(new Event("input"));
  await wait(() => Number(body().dataset.redraws) > before);
  return Number(body().dataset.took);
};
(async () => {
  await open("");
  said("loaded", text().includes("replay trace"));
  const took = [];
  for (let i = 2; i < 12; i++) took.push(await turn("workers", i));
  said("took", took.sort((a, b) => a - b)[5]);
  said("turned", text().includes("--workers 10"));
  [...f.contentDocument.querySelectorAll("button")].find((b) => b.textContent === "Pin this run").click();
  await wait(() => text().includes("pinned 1"));
  await turn("router", "least-loaded");
  said("pinned", text().includes("now against pinned 1"));
  const digest = text().match(/v1:[0-9a-f]+/)[0], link = f.contentWindow.location.hash;
  await open(link);
  said("restored", text().match(/v1:[0-9a-f]+/)[0] === digest && knob("router").value === "least-loaded" && text().includes("pinned 1"));
  knob("slo").value = "nonsense";
  knob("slo").dispatchEvent(new Event("change"));
  await wait(() => knob("slo").getAttribute("aria-invalid") === "true");
  said("refused", body().dataset.refused);
  said("charts", body().dataset.drawn);
  said("over", body().dataset.over);
  said("foreign", f.contentWindow.performance.getEntriesByType("resource").filter((e) => !e.name.startsWith(location.origin)).length);
  said("unnamed", [...f.contentDocument.querySelectorAll("input, select")].filter((e) => !e.labels.length && !e.ariaLabel).length);
  said("problems", problems.join("; ") || "none");
})().catch((e) => said("problems", e.message)).finally(() => fetch("done", { method: "POST" }));
</script>`

// In a real browser the page loads, redraws while a knob moves, keeps a run beside another,
// is restored from its link, says what is wrong, and asks no other host for anything.
func TestBrowser(t *testing.T) {
	if !*browser {
		t.Skip("skipped: only with -browser (make browser)")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("skipped: there is no chromium (Debian's package chromium has it)")
	}
	for _, width := range []int{1400, 390} {
		t.Run(fmt.Sprint(width), func(t *testing.T) { drivePage(t, path, width) })
	}
}

func drivePage(t *testing.T, path string, width int) {
	s := newTestSite(t, "../../../testdata/traces/chat-hour.jsonl")
	done := make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/" + s.token + "/driver":
			fmt.Fprintf(w, driver, width)
		case "/" + s.token + "/done":
			once.Do(func() { close(done) })
		case "/" + s.token + "/held": // the driver is not loaded before it has come to its end
			<-done
		default:
			s.ServeHTTP(framed{w, new(bool)}, r)
		}
	}))
	defer server.Close()
	defer once.Do(func() { close(done) })
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.host = at.Host
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(), "--window-size=1500,3200", "--enable-logging=stderr",
		"--dump-dom", s.address()+"driver")
	var problems strings.Builder
	cmd.Stderr = &problems
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %.2000s", err, problems.String())
	}
	if strings.Contains(problems.String(), "CONSOLE") {
		t.Errorf("the page complains: %s", problems.String())
	}
	said := map[string]string{}
	for _, m := range regexp.MustCompile(` data-([a-z]+)="([^"]*)"`).FindAllSubmatch(dom, -1) {
		if said[string(m[1])] == "" {
			said[string(m[1])] = string(m[2])
		}
	}
	for key, want := range map[string]string{
		"loaded": "true", "turned": "true", "pinned": "true", "restored": "true", "charts": "11 of 11", "over": "0", "foreign": "0", "unnamed": "0", "problems": "none",
	} {
		if said[key] != want {
			t.Errorf("%s: %q, want %q", key, said[key], want)
		}
	}
	if !strings.Contains(said["refused"], "slo=nonsense") {
		t.Errorf("refused: %q", said["refused"])
	}
	if took, err := strconv.Atoi(said["took"]); err != nil || took > 1000 {
		t.Errorf("redrawn in %q ms, want at most 1000 on a busy machine", said["took"])
	}
	t.Logf("redrawn in %s ms at the median", said["took"])
}

// framed lets the page stand in the frame of its driver.
type framed struct {
	http.ResponseWriter
	begun *bool
}

func (w framed) WriteHeader(code int) {
	if *w.begun {
		return
	}
	*w.begun = true
	w.Header().Del("X-Frame-Options")
	policy := w.Header().Get("Content-Security-Policy")
	w.Header().Set("Content-Security-Policy", strings.Replace(policy, "frame-ancestors 'none'", "frame-ancestors 'self'", 1))
	w.ResponseWriter.WriteHeader(code)
}

func (w framed) Write(text []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(text)
}
