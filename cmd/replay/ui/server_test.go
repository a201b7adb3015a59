package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/cmd/replay/plans"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/explore"
)

const short = "../../../testdata/traces/short.jsonl"

func newTestSite(t testing.TB, paths ...string) *site {
	t.Helper()
	session := explore.New()
	if err := addAll(context.Background(), session, paths); err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := writePage(&page, session, explore.Begin{Start: explore.StartSettings(), Restart: "replay ui"}); err != nil {
		t.Fatal(err)
	}
	s := newSite(session, "127.0.0.1:4711", "")
	s.show(page.Bytes())
	return s
}

// ask sends a request to the site as the page does, after change has modified it.
func ask(s *site, method, path, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://"+s.host+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// refused is the code for an answer with the error of the question.
const refused = -1

// codeOf returns the code of an answer, or refused.
func codeOf(w *httptest.ResponseRecorder) int {
	var r explore.Refusal
	if err := json.Unmarshal(w.Body.Bytes(), &r); err == nil && w.Code == http.StatusOK && r.Error != "" {
		return refused
	}
	return w.Code
}

// Only the page gets an answer. The site rejects other hosts, origins and sites, clients without the token, and all
// other paths.
func TestOnlyThePageIsAnswered(t *testing.T) {
	s := newTestSite(t, short)
	run := `{"view": "a", "settings": {"trace": "` + short + `"}}`
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	at := "/" + s.token + "/"
	for _, c := range []struct {
		name, method, path, body string
		change                   func(*http.Request)
		want                     int
	}{
		{"the page", "GET", at, "", nil, 200},
		{"a run", "POST", at + "api/run", run, nil, 200},
		{"a run of the page's origin", "POST", at + "api/run", run, header("Origin", "http://127.0.0.1:4711"), 200},
		{"no token", "GET", "/", "", nil, 403},
		{"another token", "GET", "/AAAA/", "", nil, 403},
		{"no token, a run", "POST", "/api/run", run, nil, 403},
		{"another host", "GET", at, "", host("evil.example:4711"), 421},
		{"another port", "GET", at, "", host("127.0.0.1:80"), 421},
		{"another origin", "POST", at + "api/run", run, header("Origin", "http://evil.example"), 403},
		{"no origin to speak of", "POST", at + "api/run", run, header("Origin", "null"), 403},
		{"another site", "POST", at + "api/run", run, header("Sec-Fetch-Site", "cross-site"), 403},
		{"a form", "POST", at + "api/run", run, header("Content-Type", "text/plain"), 415},
		{"a link", "GET", at + "api/run", "", nil, 405},
		{"another question", "POST", at + "api/files", run, nil, 404},
		{"a file", "GET", at + "../../../etc/passwd", "", nil, 404},
		{"a file, packed", "GET", at + "%2e%2e/%2e%2e/etc/passwd", "", nil, 404},
		{"another trace", "POST", at + "api/run", `{"settings": {"trace": "/etc/passwd"}}`, nil, refused},
		{"a file of flags", "POST", at + "api/run", `{"settings": {"trace": "` + short + `", "config": "/etc/passwd"}}`, nil, refused},
		{"a field too many", "POST", at + "api/run", `{"file": "x"}`, nil, refused},
		{"a long body", "POST", at + "api/run", `{"view": "` + strings.Repeat("x", 2<<20) + `"}`, nil, 413},
	} {
		if w := ask(s, c.method, c.path, c.body, c.change); codeOf(w) != c.want {
			t.Errorf("%s: %d %.200s, want %d", c.name, w.Code, w.Body, c.want)
		}
	}
	w := ask(s, "GET", at, "", nil)
	policy := w.Header().Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Count(policy, "'sha256-") != 3 || strings.Contains(policy, "http") {
		t.Errorf("the page may load more than itself: %s", policy)
	}
}

// An upload of valid size becomes a trace. An invalid trace is rejected.
func TestUpload(t *testing.T) {
	s := newTestSite(t, short)
	send := func(name, body string) *httptest.ResponseRecorder {
		return ask(s, "POST", "/"+s.token+"/api/upload?name="+name, body, func(r *http.Request) { r.Header.Set("Content-Type", "application/octet-stream") })
	}
	row := `{"timestamp": 0, "input_length": 100, "output_length": 10, "hash_ids": [1]}` + "\n"
	for _, c := range []struct {
		name, body string
		code       int
		want       string
	}{
		{"a.jsonl", row, 200, "a.jsonl"},
		{"a.jsonl", row, refused, "is there already"},
		{"b.jsonl", "\x00\x01\x02", refused, ""},
		{"", row, refused, "must be the name of a trace"},
		{"..%2f..%2fetc", row, 200, "../../etc"}, // used as a name, not as a path
	} {
		if w := send(c.name, c.body); codeOf(w) != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.name, w.Code, w.Body, c.code, c.want)
		}
	}
	s.left = 10
	if w := send("c.jsonl", row); w.Code != 413 {
		t.Errorf("%d %s, want no more than fits", w.Code, w.Body)
	}
	w := ask(s, "POST", "/"+s.token+"/api/run", `{"settings": {"trace": "a.jsonl"}}`, nil)
	var a explore.Answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || !strings.HasPrefix(a.Digest, "v1:") {
		t.Errorf("%d %.300s", w.Code, w.Body)
	}
}

// A plan of the page equals replay plan with the same flags. The lines of the answer report the progress of the
// search. The last line has the answer, with the settings of a replay.
func TestPlan(t *testing.T) {
	const burst = "../../../testdata/traces/burst.jsonl"
	s := newTestSite(t, burst)
	flags := []string{"--gpu=l40s,l4", "--model=llama-3.1-8b", "--slo=p99:ttft=2s", "--speedup=8", "--resamples=4", "--fix=router,topology", "--time-budget=0"}
	settings := map[string]string{"trace": burst}
	for _, flag := range flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		settings[name] = value
	}
	body, err := json.Marshal(map[string]any{"view": "a", "settings": settings})
	if err != nil {
		t.Fatal(err)
	}
	w := ask(s, "POST", "/"+s.token+"/api/plan", string(body), nil)
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	var last planLine
	staged := false
	for _, line := range lines {
		last = planLine{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		staged = staged || last.Stage != nil && last.Stage.All > 1 && last.Stage.Best != ""
	}
	if last.Found == nil || !staged {
		t.Fatalf("%d lines, the last %.300s: must report the best so far and end with an answer", len(lines), lines[len(lines)-1])
	}
	var out, problems bytes.Buffer
	program := cli.Program(func(s cli.Streams, _ []string) *cobra.Command {
		root := cli.NewProgram(&cobra.Command{Use: "replay"})
		root.AddCommand(plans.NewPlanCommand(s))
		return root
	})
	if code := program.Run(append([]string{"plan", burst, "--output", "json"}, flags...), strings.NewReader(""), &out, &problems); code != 0 {
		t.Fatalf("code %d: %s", code, &problems)
	}
	var printed struct {
		Best struct{ Confident struct{ GPUs, Workers int } }
	}
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil {
		t.Fatal(err)
	}
	c := printed.Best.Confident
	if want := strconv.Itoa(c.GPUs) + " GPU"; !strings.HasPrefix(last.Found.Answer.Number, want) || last.Found.Settings["workers"] != strconv.Itoa(c.Workers) {
		t.Errorf("%s, --workers %s: must be %ss on %d workers as the command finds", last.Found.Answer.Number, last.Found.Settings["workers"], want, c.Workers)
	}
	run := explore.Settings{"trace": burst}
	for name, value := range last.Found.Settings {
		run[name] = value
	}
	if _, err := s.session.Run(context.Background(), run); err != nil {
		t.Errorf("the settings of the answer are not those of a replay: %v", err)
	}
}

// An invalid plan is rejected with the wrong flag, and a plan ends with its context.
func TestPlanRefused(t *testing.T) {
	s := newTestSite(t, short)
	for _, c := range []struct{ settings, want string }{
		{`"slo": "p99:ttft=2s", "out": "x.html"`, "out"},
		{`"slo": "p99:ttft=2s", "gpu": "h100,h10", "model": "llama-3.1-8b"`, "h10"},
		{`"slo": "p99:ttft=2s", "faults": "[{at: 1s, worker: 0, what: dies}]"`, "faults"},
		{`"gpu": "h100"`, "slo"},
		{`"slo": "p99:ttft=2s", "trace": "/etc/passwd"`, "passwd"},
	} {
		settings := `"trace": "` + short + `", ` + c.settings
		w := ask(s, "POST", "/"+s.token+"/api/plan", `{"view": "a", "settings": {`+settings+`}}`, nil)
		var line planLine
		if err := json.Unmarshal(w.Body.Bytes(), &line); err != nil || line.Refused == nil || !strings.Contains(line.Refused.Error, c.want) {
			t.Errorf("%s: %s, must be refused for %s", c.settings, w.Body, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := ask(s, "POST", "/"+s.token+"/api/plan", `{"view": "a", "settings": {"trace": "`+short+`", "slo": "p99:ttft=2s", "gpu": "h100", "model": "llama-3.1-8b"}}`, func(r *http.Request) { *r = *r.WithContext(ctx) })
	if !strings.Contains(w.Body.String(), "the search was cancelled") {
		t.Errorf("%s: must be cancelled", w.Body)
	}
	if w := ask(s, "POST", "/"+s.token+"/api/plan", "{}", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }); w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("a form: %d", w.Code)
	}
}

// The page can set all settings that a plan chooses.
func TestChosenSettingsAreKnobs(t *testing.T) {
	known := map[string]bool{"pp": true, "policy-process": true, "endpoint-picker": true, "topology": true} // not set by a plan
	for _, k := range explore.Knobs() {
		known[k.Flag] = true
	}
	for _, v := range plans.ListVaried() {
		for _, flag := range v.Flags {
			if !known[flag] {
				t.Errorf("%s sets --%s, which is no knob", v.Name, flag)
			}
		}
	}
}

// Clients that send one byte at intervals delay no other client, and are disconnected.
func TestSlowClients(t *testing.T) {
	s := newTestSite(t, short)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.host = listener.Addr().String()
	server := newServer(context.Background(), s)
	if server.ReadHeaderTimeout > 30*time.Second || server.ReadTimeout > 10*time.Minute {
		t.Errorf("heads may take %v, and whole requests %v", server.ReadHeaderTimeout, server.ReadTimeout)
	}
	server.ReadHeaderTimeout, server.ReadTimeout = 300*time.Millisecond, 300*time.Millisecond
	go server.Serve(listener)
	defer server.Close()
	var slow []net.Conn
	for i := range 100 {
		c, err := net.Dial("tcp", s.host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		head := "POST /"
		if i%2 == 1 { // a body that never arrives
			head += s.token + "/api/run HTTP/1.1\r\nHost: " + s.host + "\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
		}
		if _, err := io.WriteString(c, head); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	reply, err := http.Get("http://" + s.host + "/" + s.token + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if text, err := io.ReadAll(reply.Body); err != nil || reply.StatusCode != http.StatusOK || len(text) < 1000 {
		t.Errorf("%s with %d bytes, %v", reply.Status, len(text), err)
	}
	for i, c := range slow {
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("client %d is still served", i)
		}
	}
}

// The command serves at the address that it prints, and ends within a second.
func TestServe(t *testing.T) {
	session := explore.New()
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	f := &serving{noOpen: true, token: "0123456789abcdefXYZ", gpu: "l40s", model: "llama-3.1-8b", files: map[string]*[]string{"classes": {"a b.yaml"}}}
	for _, name := range explore.OfferFlags() {
		if f.files[name] == nil {
			f.files[name] = new([]string)
		}
	}
	go func() { ended <- f.serve(ctx, cli.Streams{Out: out, Err: io.Discard}, session, []string{"day.jsonl"}) }()
	line := make([]byte, 200)
	n, err := in.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address := strings.Fields(string(line[:n]))[1]
	reply, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reply.Body)
	reply.Body.Close()
	at, _ := url.Parse(address)
	for _, want := range []string{`"start":{"gpu":"l40s","model":"llama-3.1-8b"}`, "replay ui day.jsonl --classes 'a b.yaml' --port " + at.Port() + " --token 0123456789abcdefXYZ"} {
		if err != nil || !strings.Contains(html.UnescapeString(strings.ReplaceAll(string(text), `\u0027`, "'")), want) {
			t.Errorf("the page does not name %q, %v", want, err)
		}
	}
	if reply.StatusCode != 200 || at.Path != "/0123456789abcdefXYZ/" || !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Errorf("%s: %s", address, reply.Status)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Second):
		t.Error("it still serves after a second")
	}
}

// FuzzQuestions checks that no body crashes the program, and that every answer is JSON or an error.
func FuzzQuestions(f *testing.F) {
	s := newTestSite(f, short)
	f.Add("run", `{"settings": {"trace": "`+short+`", "workers": "2"}}`)
	f.Add("worker", `{"settings": {"trace": "`+short+`"}, "worker": {"stage": 9, "worker": -1}}`)
	f.Add("request", `{"settings": {"trace": "`+short+`"}, "request": ":-1"}`)
	f.Add("moved", `{"settings": null, "other": {}}`)
	f.Add("cancel", `[`)
	f.Fuzz(func(t *testing.T, name, body string) {
		if strings.ContainsAny(name, "/?#% ") || strings.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' }) {
			t.Skip("skipped: the name cannot stand in a URL")
		}
		w := ask(s, "POST", "/"+s.token+"/api/"+name, body, nil)
		if w.Code == 200 && !json.Valid(w.Body.Bytes()) || w.Code >= 500 {
			t.Errorf("%d %.300s", w.Code, w.Body)
		}
	})
}

// A directory that is one trace is offered as one trace. Of other directories the files that appear to be traces are
// offered.
func TestDirectories(t *testing.T) {
	formats := "../../../testdata/traces/formats"
	conversations := filepath.Join(t.TempDir(), "weka")
	text, err := os.ReadFile(filepath.Join(formats, "weka.json"))
	if err == nil {
		err = os.Mkdir(conversations, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(conversations, "one.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	session := explore.New()
	if err := addAll(context.Background(), session, []string{formats + "/servegen", conversations, "../../../testdata/traces"}); err != nil {
		t.Fatal(err)
	}
	all := session.Traces()
	if len(all) < 5 || all[0] != formats+"/servegen" || all[1] != conversations || !slices.Contains(all, "../../../testdata/traces/short.jsonl") {
		t.Errorf("%q: want two directories, then the files of the third", all)
	}
	for _, trace := range all[:2] {
		if _, err := session.Run(context.Background(), explore.Settings{"trace": trace, "max-in-flight": "4"}); err != nil {
			t.Errorf("%s: %v", trace, err)
		}
	}
	if err := addAll(context.Background(), session, []string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no file in it is named like a trace") {
		t.Errorf("an empty directory: %v", err)
	}
}
