package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/explore"
	"github.com/replay-llm/replay/internal/cmd/explore/exploretest"
	"github.com/replay-llm/replay/internal/labels"
)

var (
	browser = flag.Bool("browser", false, "turn more settings in the real browser")
	shots   = flag.String("screenshots", "", "directory for pictures of the page")
)

// turn sets a knob to a value (a slider to a step) and waits until the page shows the result for this value.
func (b *tab) turn(flag, event string, value any) {
	b.t.Helper()
	before := b.eval(`document.body.dataset.redraws`)
	knob := fmt.Sprintf(`document.querySelector("[name=%s]")`, flag)
	b.eval(fmt.Sprintf(`%s.value = %q; %s.dispatchEvent(new Event(%q)); 0`, knob, fmt.Sprint(value), knob, event))
	b.wait(fmt.Sprintf(`document.body.dataset.redraws > %s && document.querySelector("pre.said").textContent.includes("--%s " + (%s.getAttribute("aria-valuetext") || %s.value))`,
		before, flag, knob, knob))
}

// digest returns the digest that the page shows.
func (b *tab) digest() string {
	b.t.Helper()
	return b.eval(`document.querySelector(".explorer").innerText.match(/v1:[0-9a-f]+/)[0]`)
}

// fragment returns the fragment of a link to settings.
func fragment(t *testing.T, settings map[string]string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"settings": settings, "pins": []any{}})
	if err != nil {
		t.Fatal(err)
	}
	return "#" + url.PathEscape(string(text))
}

// drop puts a file into the file input of the page.
func (b *tab) drop(path string) {
	b.t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		b.t.Fatal(err)
	}
	var found struct{ Result struct{ ObjectID string } }
	b.get(&found, "Runtime.evaluate", map[string]any{"expression": `document.querySelector("input[type=file]")`})
	b.get(nil, "DOM.setFileInputFiles", map[string]any{"files": []string{path}, "objectId": found.Result.ObjectID})
}

// settle checks the layout of the page in all its forms: no element overflows, and no chart label overlaps another
// label or is cut. settle also checks that the page has requested no file or server.
func (b *tab) settle(name string) {
	b.t.Helper()
	for i, width := range []int{390, 768, 1400, 2560} {
		for k, scheme := range []string{"light", "dark"} {
			b.resize(width, 1800, scheme)
			b.turn("workers", "input", 5+2*i+k)
			b.wait(`document.body.dataset.drawn && !document.querySelector(".busy")`)
			if over := b.eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); over != "0" {
				b.t.Errorf("the page is %s pixels wider than a window of %d", over, width)
			}
			if found := b.eval(`{ const { count, found } = (` + labels.Find + `)(window); found.join("; ") || (count >= 20 ? "" : count + " labels") }`); found != "" {
				b.t.Errorf("in a window of %d, %s: %s", width, scheme, found)
			}
			if *shots != "" {
				b.picture(filepath.Join(*shots, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)))
			}
		}
	}
	if all := b.complaints(); len(all) > 0 {
		b.t.Errorf("the page complains, or asks for something: %q", all)
	}
}

// checkFirstScreen checks the first screen. On a laptop it has the header, four tiles and two charts. On a phone the
// tiles and the first chart are above the settings.
func (b *tab) checkFirstScreen() {
	b.t.Helper()
	for i, size := range [][2]int{{1400, 900}, {390, 844}} {
		b.resize(size[0], size[1], "light")
		b.turn("workers", "input", 3+i)
		b.wait(`document.body.dataset.drawn`)
		if wrong := b.eval(`{
			scrollTo(0, 0);
			const seen = [...document.querySelectorAll("header, .tile, .first .card")].slice(0, innerWidth > 800 ? 7 : 6), room = innerHeight - document.querySelector(".handle").offsetHeight;
			seen.filter((e) => e.getBoundingClientRect().bottom > room || e.matches(".first .card") && !e.querySelector("canvas")).map((e) => e.innerText.split("\n")[0] + " ends at " + e.getBoundingClientRect().bottom).join("; ");
		}`); wrong != "" {
			b.t.Errorf("not on the first screen of %v: %s", size, wrong)
		}
	}
}

// testBrowser opens the page from disk, adds a trace and changes settings. Each result has the digest of the command.
func testBrowser(t *testing.T, page string) {
	b := openTab(t)
	b.resize(1400, 1000, "light")
	b.show(page, "")
	b.wait(`document.querySelector("[name=gpu]").value === "h100" && document.querySelector("[name=model]").value === "llama-3.1-8b"`)
	b.show(page, fragment(t, map[string]string{}))
	b.wait(`document.body.dataset.redraws === "0"`)
	b.drop(chat)
	b.wait(`document.body.dataset.redraws === "1"`)
	session, name := newSession(t), filepath.Base(chat)
	if got, want := b.digest(), digestOf(t, session, explore.Settings{"trace": chat}); got != want {
		t.Errorf("digest %s, the command's is %s", got, want)
	}
	var took []int
	for i := range 11 {
		b.turn("workers", "input", 2+i)
		ms, err := strconv.Atoi(b.eval(`document.body.dataset.took`))
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, ms)
	}
	if slices.Sort(took); took[5] > 3000 {
		t.Errorf("redrawn in %d ms, want at most 3000 on a busy machine", took[5])
	}
	t.Logf("redrawn in %d ms at the median, %d at best", took[5], took[0])
	n := 3
	if *browser {
		n = 30
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range n {
		settings := exploretest.Draw(rng, chat)
		want := digestOf(t, session, settings)
		settings["trace"] = name
		before := b.eval(`document.body.dataset.redraws`)
		b.eval(`location.hash = ` + strconv.Quote(fragment(t, settings)) + `; 0`)
		b.wait(`document.body.dataset.redraws > ` + before)
		if got := b.digest(); got != want {
			t.Errorf("%v: digest %s, the command's is %s", settings, got, want)
		}
	}
	b.eval(`{ const k = document.querySelector("[name=slo]"); k.value = "nonsense"; k.dispatchEvent(new Event("change")); 0 }`)
	b.wait(`document.querySelector("[name=slo]").getAttribute("aria-invalid") === "true"`)
	b.turn("slo", "change", "p99:ttft=1s")
	b.checkFirstScreen()
	b.settle("explorer")
}

// testLiveBrowser opens the live page of a run from disk. The page first shows the run with its digest, then other
// runs in comparison with it.
func testLiveBrowser(t *testing.T, page string) {
	b := openTab(t)
	run, made := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "live.html")
	settings := []string{"--workers", "4", "--router", "kv", "--slo", "p99:ttft=1s", "--gpu", "h100", "--model", "llama-3.1-8b"}
	if said := replay(t, append([]string{"trace", chat, "--out", run, "--max-model-len", "8192"}, settings...)...); !strings.Contains(said, "Saved run") {
		t.Fatal(said)
	}
	if said := replay(t, "report", run, "--html", made, "--live", "--live-page", page); said != "" {
		t.Fatal(said)
	}
	begin := readBegin(t, made)
	b.resize(1400, 1000, "light")
	b.show(made, "")
	b.wait(`document.body.dataset.redraws >= 1`)
	if got := b.digest(); got != begin.Run.Digest || b.eval(`document.body.dataset.same`) != "true" {
		t.Errorf("digest %s, recorded %s", got, begin.Run.Digest)
	}
	b.turn("workers", "input", 10)
	if b.eval(`document.body.innerText.includes("--max-model-len 8192") && document.body.innerText.includes("now against workers 4")`) != "true" {
		t.Error("the page does not say what is carried from the run, or compares with nothing")
	}
	session := newSession(t)
	session.Carry("max-model-len")
	want := digestOf(t, session, map[string]string{
		"trace": chat, "workers": "10", "router": "kv", "slo": "p99:ttft=1s", "gpu": "h100", "model": "llama-3.1-8b", "max-model-len": "8192",
	})
	if got := b.digest(); got != want {
		t.Errorf("with ten workers: digest %s, the command's is %s", got, want)
	}
	b.settle("live")
}
