package ui

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/optional"
)

var (
	browser = flag.Bool("browser", false, "turn the knobs of the page in real browsers")
	axeFile = flag.String("axe", "", "axe.min.js of the npm package axe-core, which looks at the page for those who do not see it")
)

// driver operates the page in a frame as a user does, and sends the results.
const driver = `<!DOCTYPE html><link rel="icon" href="data:,"><body><iframe id="f" width="%d" height="3000"></iframe><script>
const f = document.getElementById("f");
let waits = "";
const wait = (f, most = 15000) => (waits = String(f), 0) || new Promise((ok, no) => { const t0 = Date.now(); const look = () => { let v; try { v = f(); } catch {} if (v) ok(v); else if (Date.now() - t0 > most) no(new Error("waited for " + f)); else setTimeout(look, 5); }; look(); });
const said = {};
const body = () => f.contentDocument.body, text = () => body().innerText, hash = () => decodeURIComponent(f.contentWindow.location.hash);
const problems = [];
const open = async (where) => {
  f.src = "about:blank";
  await wait(() => f.contentWindow.location.href === "about:blank");
  f.src = "./" + where;
  await wait(() => body().dataset.redraws >= "1" && body().dataset.drawn);
  f.contentWindow.addEventListener("error", (e) => problems.push(e.message));
  f.contentWindow.console.error = f.contentWindow.console.warn = (...all) => problems.push(all.join(" "));
  f.contentDocument.addEventListener("securitypolicyviolation", (e) => problems.push(e.violatedDirective));
};
const knob = (flag) => f.contentDocument.querySelector("[name=" + flag + "]");
const pins = () => [...f.contentDocument.querySelectorAll(".pin input")];
const title = () => f.contentDocument.querySelector("header").innerText;
const find = (selector, text) => [...f.contentDocument.querySelectorAll(selector)].find((e) => e.textContent.includes(text));
const press = (text) => [...f.contentDocument.querySelectorAll("button")].find((b) => b.textContent === text).click();
const turn = async (flag, value) => {
  const before = Number(body().dataset.redraws);
  knob(flag).value = value;
  knob(flag).dispatchEvent(new Event("input"));
  await wait(() => Number(body().dataset.redraws) > before);
  return Number(body().dataset.took);
};
const done = () => fetch("done", { method: "POST", body: JSON.stringify(said) });
(async () => {
  await open("");
  said.loaded = text().includes("replay trace");
  said.unset = knob("prefill-workers").placeholder === "no pool" && knob("gpu").value === "h100" && title().includes("llama-3.1-8b");
  said.blocked = knob("prefill-tp").disabled && !knob("tp").disabled;
  await turn("gpu", "");
  await wait(() => !f.contentDocument.querySelector("pre.said").textContent.includes("--gpu"));
  const took = [];
  for (let i = 2; i < 12; i++) took.push(await turn("workers", i));
  said.took = took.sort((a, b) => a - b)[5];
  said.turned = text().includes("--workers 11");
  await wait(() => body().dataset.drawn);
  const begun = Number(body().dataset.redraws), t0 = performance.now();
  for (let i = 0; performance.now() - t0 < 2000; i++) { knob("workers").value = 6 + i %% 6; knob("workers").dispatchEvent(new Event("input")); await new Promise((r) => setTimeout(r, 16)); }
  said.rate = Math.round((Number(body().dataset.redraws) - begun) / 0.2) / 10;
  const last = knob("workers").value;
  await wait(() => (f.contentDocument.querySelector("pre.said").textContent + " ").includes("--workers " + last + " "));
  said.newest = true;
  press("Pin this run");
  await wait(() => pins().length === 1);
  await turn("router", "least-loaded");
  await wait(() => pins()[0].placeholder === "router round_robin");
  pins()[0].value = "before";
  pins()[0].dispatchEvent(new Event("change"));
  await wait(() => hash().includes('"before"'));
  await wait(() => text().includes("now against before"));
  press("Pin this run");
  await wait(() => pins().length === 2 && body().dataset.drawn);
  const colours = [...f.contentDocument.querySelectorAll(".pin i")].map((i) => i.style.background);
  f.contentDocument.querySelectorAll(".pin [aria-label^=Remove]")[1].click();
  await wait(() => pins().length === 1);
  said.pinned = new Set(colours).size === 3 && pins()[0].value === "before";
  await turn("faults", "+");
  f.contentDocument.querySelector("[data-fault=at]").value = "1800";
  f.contentDocument.querySelector("[data-fault=at]").dispatchEvent(new Event("input"));
  await wait(() => text().includes("--faults '[{at: 1800s, worker: 0, what: dies, back: 30s}]'"));
  knob("zoom-request").value = "10";
  f.contentDocument.querySelector("[aria-label='Show the request']").click();
  await wait(() => text().includes("request 10, ") && hash().includes('"request":"10"') && hash().includes("1800s"));
  await wait(() => body().dataset.drawn);
  said.charts = body().dataset.drawn;
  said.overlaid = [...f.contentDocument.querySelectorAll(".chart[role=img]")].every((c) => /before: from .*now: from/.test(c.ariaLabel || c.getAttribute("aria-label")));
  said.marked = f.contentDocument.querySelector(".chart[role=img]").getAttribute("aria-label").includes("fault 1");
  const digest = text().match(/v1:[0-9a-f]+/)[0], link = f.contentWindow.location.hash;
  await open(link);
  await wait(() => text().includes("request 10, "));
  said.restored = text().match(/v1:[0-9a-f]+/)[0] === digest && knob("router").value === "least-loaded" && knob("faults").value === "+"
    && f.contentDocument.querySelector("[data-fault=at]").value === "1800" && pins()[0].value === "before";
  await new Promise((r) => setTimeout(r, 500));
  find("summary", "Request by request").click();
  await wait(() => /95 %% intervals/.test(text()) && f.contentDocument.querySelector("[aria-label='Paired changes'] tbody tr"));
  said.compared = true;
  await turn("workers", 7);
  await new Promise((r) => setTimeout(r, 700));
  await turn("workers", 9);
  await new Promise((r) => setTimeout(r, 700));
  f.contentWindow.history.back();
  await wait(() => knob("workers").value === "7" && f.contentDocument.querySelector("pre.said").textContent.includes("--workers 7"));
  said.back = true;
  await wait(() => body().dataset.drawn);
  said.missed = "";
  for (let i = 0, draw = 7; i < 30; i++) { // the events of a pointer are frames apart, on whole pixels
    await wait(() => body().dataset.drawn);
    const chart = f.contentDocument.querySelector(".clicks"), all = chart.places(), over = chart.querySelector(".u-over");
    draw = draw * 48271 %% 2147483647;
    const p = all[draw %% all.length], wanted = all.filter((o) => Math.hypot(o.left - p.left, o.top - p.top) <= 3).map((o) => o.text.match(/\d+/)[0]);
    f.contentDocument.querySelector("[aria-label='Ledger or passes']").textContent = ""; // of the click before
    let at;
    for (const [type, off] of [["mousemove", 0], ["mousedown", 0], ["mousemove", 2], ["mouseup", 2], ["click", 2]]) { // a hand moves a little, and the page may move
      await new Promise((r) => setTimeout(r, 20));
      if (!off) at = over.getBoundingClientRect();
      over.dispatchEvent(new f.contentWindow.MouseEvent(type, { clientX: at.left + p.left + off, clientY: at.top + p.top, movementX: off, bubbles: true }));
    }
    const said30 = f.contentDocument.querySelector("[aria-label='Ledger or passes']");
    try { await wait(() => wanted.some((id) => said30.textContent.startsWith("request " + id + ", "))); } catch { said.missed += p.text + " at " + [p.left, p.top, over.clientWidth, over.clientHeight].map(Math.round) + " opens " + said30.textContent.slice(0, 90) + " wanted " + wanted + "; "; }
  }
  said.clicked = true;
  find("summary", "Workers").click();
  f.contentDocument.querySelector("[aria-label=Workers] tbody tr:nth-child(2) button").click();
  await wait(() => /^ *start ms +end ms.*\n +[\d,.]+/.test(f.contentDocument.querySelector("[aria-label='Ledger or passes']").textContent) && hash().includes('"worker":"1"'));
  said.worker = true;
  const frame = f.contentWindow, rest = (ms) => new Promise((ok) => setTimeout(ok, ms));
  const spans = () => [...f.contentDocument.querySelectorAll(".uplot")].filter((u) => u.span).map((u) => u.span().map(Math.round).join());
  const drag = async (over, from, to) => {
    const at = over.getBoundingClientRect(), send = (type, x) => over.dispatchEvent(new frame.MouseEvent(type, { clientX: at.left + at.width * x, clientY: at.top + 60, movementX: 9, bubbles: true, buttons: 1 }));
    for (const [type, x] of [["mousemove", from], ["mousedown", from], ["mousemove", (from + to) / 2], ["mousemove", to], ["mouseup", to]]) { send(type, x); await new Promise((ok) => frame.requestAnimationFrame(() => frame.requestAnimationFrame(ok))); }
  };
  const whole = spans();
  await drag(f.contentDocument.querySelectorAll(".first .uplot .u-over")[1], 0.25, 0.5);
  await wait(() => new Set(spans()).size === 1 && spans()[0] !== whole[1]);
  const part = spans()[0];
  await turn("workers", 8);
  await wait(() => body().dataset.drawn);
  said.zoomed = spans().length >= 4 && spans().every((s) => s === part);
  f.contentDocument.querySelectorAll(".first .uplot .u-over")[1].dispatchEvent(new frame.MouseEvent("dblclick", { bubbles: true }));
  await wait(() => spans().every((s) => s !== part));
  const blobs = [], made = frame.URL.createObjectURL, clicked = frame.HTMLAnchorElement.prototype.click;
  frame.URL.createObjectURL = (b) => { blobs.push(b); return "data:,"; };
  frame.HTMLAnchorElement.prototype.click = () => {};
  press("PNG of the charts");
  press("CSV of the numbers");
  press("One-file page");
  await wait(() => blobs.length === 3);
  Object.assign(frame.URL, { createObjectURL: made });
  frame.HTMLAnchorElement.prototype.click = clicked;
  const image = await createImageBitmap(blobs.find((b) => b.type === "image/png")), csv = await blobs.find((b) => b.type === "text/csv").text();
  const alone = new DOMParser().parseFromString(await blobs.find((b) => b.type === "text/html").text(), "text/html");
  said.alone = JSON.parse(alone.getElementById("data").textContent).runs.map((r) => r.name).join();
  said.exported = image.width > 300 && image.height > 500 && csv.startsWith("value,before,now\n") && csv.includes("\np99_ttft_ms,") && csv.includes(text().match(/v1:[0-9a-f]+/)[0]);
  knob("sweep-setting").value = "workers";
  knob("sweep-values").value = "3, 5, 0, 8";
  press("Sweep");
  const swept = f.contentDocument.getElementById("sweep");
  await wait(() => swept.dataset.state === "done", 30000);
  said.swept = swept.querySelectorAll(".chart canvas").length >= 2 && swept.textContent.includes("0: ") && /TTFT, p99, by Workers.*from [^;]*s to [^;]*s,/.test(swept.querySelector(".chart").getAttribute("aria-label"));
  const ordinary = frame.fetch;
  frame.fetch = async (...all) => { if (String(all[0]).endsWith("run")) await rest(700); return ordinary.apply(frame, all); };
  const dimmed = turn("workers", 5);
  await wait(() => f.contentDocument.querySelector(".busy .results") && text().includes("running; the results are those of the settings before"));
  said.dimmed = frame.getComputedStyle(f.contentDocument.querySelector(".results")).opacity < 1;
  await dimmed;
  await wait(() => !f.contentDocument.querySelector(".busy"));
  frame.fetch = ordinary;
  const focused = ["Pin this run", "Use", "Request by request", "Show", "Copy command"].map((name) => find("button, summary", name)).concat([...f.contentDocument.querySelectorAll("[aria-label^='Remove the pin'], [aria-label='Slowest requests'] button, [aria-label='Ledger or passes'], .pin input")].slice(0, 8));
  [...f.contentDocument.querySelectorAll("details")].forEach((d) => { d.open = true; });
  said.keyboard = focused.map((e) => { e.focus(); return e === f.contentDocument.activeElement && e.tabIndex >= 0 ? "" : e.textContent || e.ariaLabel; }).join("");
  const search = f.contentDocument.querySelector("input[type=search]"), seen = (flag) => knob(flag).offsetParent !== null;
  if (!f.contentDocument.querySelector(".knobs.open") && f.width < 800) f.contentDocument.querySelector(".handle").click();
  said.found = String(seen("preemption-mode"));
  search.value = "preempted first";
  search.dispatchEvent(new Event("input"));
  said.found += " " + seen("preemption-mode") + " " + seen("workers");
  search.value = "";
  search.dispatchEvent(new Event("input"));
  await turn("autoscale", "+");
  f.contentDocument.querySelector("[data-scaler=max]").value = "5";
  f.contentDocument.querySelector("[data-scaler=max]").dispatchEvent(new Event("input"));
  await wait(() => text().includes("--autoscale '{scaler: hpa, min: 1, max: 5, metrics: [{metric: in_flight, target: 8}], startup: {weights: 30s}}'"));
  said.scaled = true;
  await turn("autoscale", "");
  const bag = new DataTransfer(), upload = f.contentDocument.querySelector("input[type=file]");
  bag.items.add(new File(["when,tokens in,tokens out\n" + Array.from({ length: 50 }, (_, i) => i * 2 + "," + (100 + i) + ",20\n").join("")], "mine.csv"));
  upload.files = bag.files;
  upload.dispatchEvent(new Event("change"));
  await wait(() => knob("column-arrival") && knob("trace").value === "mine.csv");
  said.guessed = ["arrival", "input", "output"].map((role) => knob("column-" + role).value).join();
  press("Use these columns");
  await wait(() => (f.contentDocument.querySelector("pre.said").textContent + "").includes("mine.csv") && text().includes("--columns 'arrival=when,input=tokens in,output=tokens out'") && body().dataset.drawn);
  said.mapped = !knob("column-arrival");
  knob("trace").value = knob("trace").options[0].value;
  knob("trace").dispatchEvent(new Event("input"));
  await wait(() => text().includes("chat-hour") && !f.contentDocument.querySelector("pre.said").textContent.includes("--columns") && body().dataset.drawn);
  const settled = hash();
  frame.fetch = () => Promise.reject(new TypeError("no server"));
  frame.gone = true;
  knob("workers").value = "6";
  knob("workers").dispatchEvent(new Event("input"));
  await wait(() => text().includes("replay ui has stopped. Start it again with: "));
  frame.fetch = ordinary;
  await wait(() => !f.contentWindow.gone && body().dataset.redraws >= "1" && body().dataset.drawn && knob("workers").value === "6", 30000);
  said.reconnected = hash() !== settled && f.contentDocument.querySelector("pre.said").textContent.includes("--workers 6 ");
  knob("slo").value = "nonsense";
  knob("slo").dispatchEvent(new Event("change"));
  await wait(() => knob("slo").getAttribute("aria-invalid") === "true");
  said.refused = body().dataset.refused;
  said.stale = Boolean(f.contentDocument.querySelector(".stale .results")) && text().includes("stale: ");
  said.over = body().dataset.over;
  said.foreign = f.contentWindow.performance.getEntriesByType("resource").filter((e) => !e.name.startsWith(location.origin) && !e.name.startsWith("data:")).length;
  said.unnamed = [...f.contentDocument.querySelectorAll("input, select")].filter((e) => !e.labels.length && !e.ariaLabel).length;
  const panel = () => f.contentDocument.getElementById("smallest"), says = () => f.contentDocument.getElementById("smallest-says").textContent;
  press("Search");
  await wait(() => panel().dataset.state === "refused");
  said.unplanned = says();
  said.dark = f.contentWindow.matchMedia("(prefers-color-scheme: dark)").matches === f.width < 500;
  said.axe = "none";
  const axe = await fetch("axe");
  if (axe.ok) {
    await open("?axe" + link);
    [...f.contentDocument.querySelectorAll("summary")].forEach((s) => s.click());
    f.contentWindow.eval(await axe.text());
    const found = await f.contentWindow.axe.run();
    said.axe = found.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 100)).slice(0, 3)).join("; ") || "none";
  }
  const eight = [1, 2, 3, 4, 5, 6, 7, 8].map((n) => ({ settings: { trace: knob("trace").value, workers: String(n) } }));
  await open("#" + encodeURIComponent(JSON.stringify({ settings: { trace: knob("trace").value }, pins: eight })));
  await wait(() => pins().length === 6);
  said.unshown = f.contentDocument.body.innerText.includes("The link has 2 more, which are not shown");
  await open("#" + encodeURIComponent(JSON.stringify({ settings: { trace: knob("trace").options[1].value, gpu: "l40s", model: "llama-3.1-8b", speedup: "8" }, pins: [] })));
  knob("smallest-seconds").value = "5";
  for (const name of ["router", "topology"]) knob("smallest-" + name).click();
  knob("smallest-slo").value = "p99:ttft=2s,p99:tpot=40ms";
  press("Search");
  await wait(() => /choices(, now resamples)?, best so far \d+ GPU/.test(says()));
  said.progress = says().includes("round ");
  press("Cancel search");
  await wait(() => panel().dataset.state === "cancelled");
  said.cancelled = says();
  press("Search");
  await wait(() => panel().dataset.state === "found", 90000);
  said.number = panel().querySelector(".number").textContent;
  said.chart = panel().querySelectorAll(".top .chart canvas").length;
  press("Apply");
  const workers = panel().querySelector(".under").textContent.match(/^\d+/)[0];
  await wait(() => f.contentDocument.querySelector("pre.said").textContent.includes("--workers " + workers + " ") && hash().includes('"tp":'));
  said.applied = knob("slo").value;
  said.over = Math.max(Number(said.over), Number(body().dataset.over));
  said.problems = problems.join("; ") || "none";
})().catch((e) => said.problems = e.message + "; " + problems.join("; ")).finally(() => done());
setTimeout(() => { said.problems = "not done in time: waits for " + waits + "; " + problems.join("; "); done(); }, 225000);
</script>`

// In real browsers the page loads, redraws while a setting changes, keeps a run next to another run, restores
// settings from its link, and shows errors. The page uses a light layout on a wide screen and a dark layout on a
// phone, and requests no other host.
func TestBrowser(t *testing.T) {
	if !*browser {
		t.Skip("skipped: only with -browser (make browser)")
	}
	for _, name := range []string{"chromium", "firefox-esr"} {
		for _, width := range []int{1400, 390} {
			t.Run(fmt.Sprint(name, "/", width), func(t *testing.T) {
				drivePage(t, optional.Program(t, name, "--version"), width)
			})
		}
	}
}

// browserArgs returns the arguments with which a browser opens an address, light or dark, with an empty user profile.
func browserArgs(t *testing.T, path, address string, dark bool) []string {
	t.Helper()
	dir := t.TempDir()
	if strings.Contains(path, "firefox") {
		prefs := `user_pref("browser.shell.checkDefaultBrowser", false); user_pref("datareporting.policy.dataSubmissionEnabled", false);`
		if dark {
			prefs += ` user_pref("layout.css.prefers-color-scheme.content-override", 0);`
		}
		if err := os.WriteFile(filepath.Join(dir, "user.js"), []byte(prefs), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"--headless", "--no-remote", "--window-size=1500,3200", "--profile", dir, address}
	}
	scheme := 1
	if dark {
		scheme = 0
	}
	return []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", fmt.Sprint("--blink-settings=preferredColorScheme=", scheme),
		"--disable-component-update", "--disable-sync", "--user-data-dir=" + dir, "--window-size=1500,3200", "--enable-logging=stderr", "--remote-debugging-port=0", address}
}

func drivePage(t *testing.T, path string, width int) {
	s := newTestSite(t, "../../../testdata/traces/chat-hour.jsonl", "../../../testdata/traces/burst.jsonl")
	done := make(chan map[string]any, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/" + s.token + "/driver":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprintf(w, driver, width)
		case "/" + s.token + "/done":
			said := map[string]any{}
			if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
				said["problems"] = err.Error()
			}
			done <- said
		case "/" + s.token + "/axe":
			http.ServeFile(w, r, *axeFile)
		default:
			s.ServeHTTP(framed{w, new(bool), r.URL.RawQuery == "axe"}, r)
		}
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.host = at.Host
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute) // time for a search and 30 ledgers
	cmd := exec.CommandContext(ctx, path, browserArgs(t, path, s.address()+"driver", width < 500)...)
	var problems strings.Builder
	cmd.Stderr = &problems
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said map[string]any
	select {
	case said = <-done:
	case <-ctx.Done():
	}
	cancel()
	cmd.Wait()
	if said == nil {
		t.Fatalf("nothing was said: %.2000s", problems.String())
	}
	if strings.Contains(problems.String(), "CONSOLE") {
		t.Errorf("the page complains: %s", problems.String())
	}
	checkSaid(t, said)
}

// checkSaid compares the findings of the driver with the expected ones.
func checkSaid(t *testing.T, said map[string]any) {
	t.Helper()
	for key, want := range map[string]string{
		"loaded": "true", "unset": "true", "turned": "true", "newest": "true", "pinned": "true", "overlaid": "true", "marked": "true", "restored": "true", "blocked": "true", "clicked": "true", "missed": "", "worker": "true", "dark": "true", "alone": "before,now", "compared": "true", "back": "true", "stale": "true", "zoomed": "true", "exported": "true", "swept": "true", "dimmed": "true", "keyboard": "", "found": "false true false", "scaled": "true", "guessed": "when,tokens in,tokens out", "mapped": "true", "reconnected": "true", "unshown": "true",
		"charts": "8 of 8", "progress": "true", "cancelled": "The search was cancelled.", "chart": "1", "applied": "p99:ttft=2s,p99:tpot=40ms", "over": "0", "foreign": "0", "unnamed": "0", "axe": "none", "problems": "none",
	} {
		if got := fmt.Sprint(said[key]); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if !strings.Contains(fmt.Sprint(said["refused"]), "slo=nonsense") {
		t.Errorf("refused: %q", said["refused"])
	}
	if !strings.Contains(fmt.Sprint(said["unplanned"]), "--slo") {
		t.Errorf("refused: %q, must name --slo", said["unplanned"])
	}
	if !strings.Contains(fmt.Sprint(said["number"]), "GPU") {
		t.Errorf("the smallest cluster: %q", said["number"])
	}
	if took, ok := said["took"].(float64); !ok || took > 1000 {
		t.Errorf("redrawn in %v ms, want at most 1000 on a busy machine", said["took"])
	}
	t.Logf("redrawn in %v ms at the median, and %v times a second while the knob moves", said["took"], said["rate"])
}

// framed allows the frame of the driver to contain the page.
type framed struct {
	http.ResponseWriter
	begun *bool
	eval  bool // scripts that read the page may be added
}

func (w framed) WriteHeader(code int) {
	if *w.begun {
		return
	}
	*w.begun = true
	w.Header().Del("X-Frame-Options")
	policy := w.Header().Get("Content-Security-Policy")
	if w.eval {
		policy = strings.Replace(policy, "script-src ", "script-src 'unsafe-eval' ", 1)
	}
	w.Header().Set("Content-Security-Policy", strings.Replace(policy, "frame-ancestors 'none'", "frame-ancestors 'self'", 1))
	w.ResponseWriter.WriteHeader(code)
}

func (w framed) Write(text []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(text)
}
