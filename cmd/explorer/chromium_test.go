package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/labels"
	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/internal/poll"
)

// tab is a page that is open in a real browser. Tests control it through a pipe, with the protocol of the developer
// tools. The page is loaded unchanged from disk.
type tab struct {
	t       *testing.T
	to      io.Writer
	session string

	mutex    sync.Mutex
	last     int
	answers  map[int]chan message
	problems []string // what the console complained of, and addresses that were asked for
}

// message is a message of the DevTools protocol.
type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// openTab starts Chromium with an empty tab.
func openTab(t *testing.T) *tab {
	t.Helper()
	path := optional.Program(t, "chromium", "--version")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{theirs, said}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	said.Close()
	tab := &tab{t: t, to: ours, answers: map[int]chan message{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tab.read(from)
	}()
	t.Cleanup(func() {
		tab.call("Browser.close", nil)
		cmd.Wait()
		cancel()
		ours.Close()
		<-ended
		from.Close()
	})
	var target struct{ TargetID string }
	tab.get(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	var attached struct{ SessionID string }
	tab.get(&attached, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	tab.session = attached.SessionID
	for _, domain := range []string{"Runtime", "Log", "Network", "Page"} {
		tab.get(nil, domain+".enable", nil)
	}
	tab.get(nil, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": labels.Note})
	return tab
}

// read handles the messages of the browser until the browser ends.
func (b *tab) read(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		var m message
		if err != nil || json.Unmarshal(text[:len(text)-1], &m) != nil {
			break
		}
		b.mutex.Lock()
		if m.ID != 0 {
			b.answers[m.ID] <- m
			delete(b.answers, m.ID)
		} else if problem := findProblem(&m); problem != "" {
			b.problems = append(b.problems, problem)
		}
		b.mutex.Unlock()
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, answer := range b.answers {
		close(answer)
	}
	b.answers = nil
}

// findProblem returns the error of an event, or the address of a request that is neither a file nor in the page; ""
// if there is no problem.
func findProblem(m *message) string {
	var p struct {
		Request struct{ URL string }
		Type    string
		Entry   struct{ Level, Text string }
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return "unreadable: " + string(m.Params)
	}
	switch m.Method {
	case "Network.requestWillBeSent":
		if at := p.Request.URL; !strings.HasPrefix(at, "file:") && !strings.HasPrefix(at, "blob:") && !strings.HasPrefix(at, "data:") {
			return "asks for " + at
		}
	case "Network.webSocketCreated", "Runtime.exceptionThrown":
		return m.Method + string(m.Params)
	case "Log.entryAdded":
		return p.Entry.Level + ": " + p.Entry.Text
	case "Runtime.consoleAPICalled":
		return string(m.Params)
	}
	return ""
}

// call sends a command and returns the answer. The second result is false if the browser has ended.
func (b *tab) call(method string, params any) (message, bool) {
	b.mutex.Lock()
	if b.answers == nil {
		b.mutex.Unlock()
		return message{}, false
	}
	b.last++
	id, answer := b.last, make(chan message, 1)
	b.answers[id] = answer
	b.mutex.Unlock()
	text, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": b.session})
	if err != nil {
		b.t.Error(err)
	}
	if b.session == "" || strings.HasPrefix(method, "Browser.") {
		text, _ = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	b.to.Write(append(text, 0))
	select {
	case m, ok := <-answer:
		return m, ok
	case <-time.After(2 * time.Minute):
		return message{}, false
	}
}

// get sends a command and decodes its result. get fails the test if no result arrives.
func (b *tab) get(into any, method string, params any) {
	b.t.Helper()
	m, ok := b.call(method, params)
	switch {
	case !ok:
		b.t.Fatalf("%s: the browser does not answer", method)
	case m.Error != nil:
		b.t.Fatalf("%s: %s", method, m.Error.Message)
	case into == nil:
	case json.Unmarshal(m.Result, into) != nil:
		b.t.Fatalf("%s: %s", method, m.Result)
	}
}

// show opens a page from a file.
func (b *tab) show(path, fragment string) {
	b.t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		b.t.Fatal(err)
	}
	at := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	b.get(nil, "Page.navigate", map[string]any{"url": "about:blank"})
	b.get(nil, "Page.navigate", map[string]any{"url": at.String() + fragment})
}

// eval waits until the page is loaded and returns the value of a script in it.
func (b *tab) eval(script string) string {
	b.t.Helper()
	var found struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.get(&found, "Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true})
	if e := found.ExceptionDetails; e != nil {
		b.t.Fatalf("%.300s: %s %s", script, e.Text, e.Exception.Description)
	}
	return fmt.Sprint(found.Result.Value)
}

// wait waits until a script returns true in the page.
func (b *tab) wait(script string) {
	b.t.Helper()
	if !poll.Wait(func() bool { return b.eval("try { !!("+script+") } catch { false }") == "true" }) {
		b.t.Fatalf("never: %s; the page says %s %v", script, b.eval(`document.body.innerText.slice(0, 2000)`), b.problems)
	}
}

// resize sets the size of the window and its color scheme.
func (b *tab) resize(width, height int, scheme string) {
	b.get(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
	b.get(nil, "Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": scheme}}})
}

// picture saves a screenshot of the page.
func (b *tab) picture(path string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.get(&shot, "Page.captureScreenshot", map[string]any{"format": "png"})
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(path, png, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// complaints returns the errors of the page and its forbidden requests.
func (b *tab) complaints() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.problems
}
