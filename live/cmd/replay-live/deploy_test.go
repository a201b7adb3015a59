package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/replay-llm/replay/internal/poll"
)

// composed is the compose file of docs/cluster.md.
type composed struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Check       struct {
			Test []string `yaml:"test"`
		} `yaml:"healthcheck"`
	} `yaml:"services"`
}

// readStack reads a file of examples/stack.
func readStack(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../examples/stack", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// readYAML decodes a file of examples/stack.
func readYAML(t *testing.T, name string, to any) {
	t.Helper()
	if err := yaml.Unmarshal(readStack(t, name), to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// commands returns the commands of this program's services that start with word. commandHere adapts the commands, and
// replaces the service's own name by localhost.
func (c *composed) commands(word string) (all [][]string) {
	for name, s := range c.Services {
		if s.Image == "replay:local" && s.Command[0] == word {
			all = append(all, commandHere(s.Command, name, "localhost"))
		}
	}
	return all
}

// commandHere adapts a container's command to this machine: any free ports, loopback addresses, and an end without
// grace.
func commandHere(command []string, address, here string) (args []string) {
	port := regexp.MustCompile(`^(--[a-z-]*port)=.*`)
	for _, arg := range command {
		if flag, ok := strings.CutSuffix(arg, "="+address); ok {
			arg = flag + "=" + here
		}
		if !strings.HasPrefix(arg, "--system-host") { // there it requires the token
			arg = strings.ReplaceAll(arg, "0.0.0.0", "127.0.0.1")
		}
		args = append(args, port.ReplaceAllString(arg, "$1=0"))
	}
	return append(args, "--grace=0s")
}

// Images in the compose file have a version, and Prometheus scrapes every worker. The commands start, find each other
// by names and a token, and answer. The services export every metric of the dashboard.
func TestStackInAFile(t *testing.T) {
	var c composed
	readYAML(t, "compose.yaml", &c)
	for name, s := range c.Services {
		if _, tag, ok := strings.Cut(s.Image, ":"); !ok || tag == "latest" {
			t.Errorf("%s: image %q has no version", name, s.Image)
		}
	}
	workers, fronts := c.commands("worker"), c.commands("frontend")
	if len(workers) != 8 || len(fronts) != 1 {
		t.Fatalf("%d workers and %d frontends, want 8 and 1", len(workers), len(fronts))
	}
	scraped := string(readStack(t, "prometheus.yaml"))
	for name, s := range c.Services {
		if s.Image == "replay:local" && !strings.Contains(scraped, `"`+name+`:`) {
			t.Errorf("prometheus.yaml does not ask %s", name)
		}
	}
	servers := newCompound(t)
	servers.env = []string{"REPLAY_LINK_TOKEN=" + linkToken}
	w, front := servers.start(workers[0]...), servers.start(fronts[0]...)
	awaitModel(t, front, "mocker-model")
	if code, body := complete(t, front, "mocker-model"); code != http.StatusOK {
		t.Fatalf("%d: %s", code, body)
	}
	for word, m := range map[string]*member{"worker-1": w, "frontend": front} {
		check := c.Services[word].Check.Test
		at, err := url.Parse(check[len(check)-1])
		if err != nil {
			t.Fatal(err)
		}
		if port := "=" + at.Port(); !strings.Contains(strings.Join(c.Services[word].Command, " "), "-port"+port) {
			t.Errorf("%s: health is asked for at port%s", word, port)
		}
		if code := statusAt(t, m, at.Path); code != http.StatusOK {
			t.Errorf("%s: %s: %d", word, at.Path, code)
		}
	}
	if code, _ := exportedBy(t, w, ""); code != http.StatusUnauthorized || !strings.Contains(scraped, "credentials_file: /run/secrets/link_token") {
		t.Errorf("a worker's metrics without the token: %d, want 401, and Prometheus to have it", code)
	}
	names := drawnNames(t)
	for _, name := range names {
		poll.Until(t, name+", which the dashboard draws", func() bool {
			_, worker := exportedBy(t, w, linkToken)
			_, own := exportedBy(t, front, "")
			exported := worker + own
			return strings.Contains(exported, "\n"+name+"{") || strings.Contains(exported, "\n"+name+" ")
		})
	}
	if len(names) < 8 {
		t.Errorf("the dashboard draws %v, want at least 8 metrics", names)
	}
}

// statusAt returns the status of a request without a token.
func statusAt(t *testing.T, m *member, path string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(m.base(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Get("http://127.0.0.1:" + port + path)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}

// exportedBy returns the metrics that a process exports to Prometheus.
func exportedBy(t *testing.T, m *member, token string) (status int, text string) {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(m.base(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	rq, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+port+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		rq.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := http.DefaultClient.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, "\n" + string(all)
}

// drawnNames returns the metric names in the dashboard's expressions.
func drawnNames(t *testing.T) (names []string) {
	t.Helper()
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(readStack(t, "grafana/dashboards/replay.json"), &board); err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\b[a-z]+_[a-z]+_[a-z_]+\b`)
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			found := name.FindAllString(q.Expr, -1)
			if len(found) == 0 {
				t.Errorf("%q names no metric", q.Expr)
			}
			names = append(names, found...)
		}
	}
	return names
}
