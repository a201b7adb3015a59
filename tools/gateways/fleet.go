package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/replay-llm/replay/internal/json"
)

// fleet consists of servers, a proxy in front of each server, and a gateway in front of the proxies.
type fleet struct {
	gateway string // URL of the gateway
	proxies []*httptest.Server
	port    int      // port of all proxies; 0: not chosen yet
	arrived chan int // worker that received a request
	mu      sync.Mutex
	held    map[string]chan struct{} // by prompt; closed when the answer may be sent
	stops   []func()
	log     gatewayLog
	ids     map[int64]int64 // token ids for the gateway, by the server's token ids
}

// gatewayLog collects the output of a gateway.
type gatewayLog struct {
	mu   sync.Mutex
	text strings.Builder
}

// evictionOver is a text in the log lines of gateways after an eviction from a tree of texts.
const evictionOver = "eviction completed"

func (l *gatewayLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *gatewayLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// count returns how often the log contains a text.
func (l *gatewayLog) count(text string) int { return strings.Count(l.String(), text) }

const startTime = 60 * time.Second

// startFleet starts size servers of a kind, and a gateway with the given arguments.
func startFleet(live, kind string, size int, program string, args []string) (*fleet, error) {
	f := &fleet{arrived: make(chan int, 1), held: map[string]chan struct{}{}, ids: map[int64]int64{}}
	if err := f.startServers(live, kind, size); err != nil {
		f.stop()
		return nil, err
	}
	if err := f.startGateway(program, args); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

func (f *fleet) startServers(live, kind string, size int) error {
	servers, err := f.serve(live, kind, size)
	if err != nil {
		return err
	}
	for _, target := range servers {
		if err := f.addProxy(target); err != nil {
			return err
		}
	}
	return nil
}

// serve starts servers and returns their URLs.
func (f *fleet) serve(live, kind string, size int) (servers []*url.URL, err error) {
	cmd := exec.Command(live, kind, "--port=0", fmt.Sprintf("--fleet=%d", size), "--served-model-name=tiny", "--speedup-ratio=100")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	f.stopWith(cmd)
	for lines := bufio.NewScanner(out); len(servers) < size; {
		if !lines.Scan() {
			return nil, fmt.Errorf("%s %s ends before it listens", live, kind)
		}
		var line struct{ HTTP string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, err
		}
		target, err := url.Parse(line.HTTP)
		if err != nil {
			return nil, err
		}
		servers = append(servers, target)
	}
	return servers, nil
}

// addProxy adds a proxy in front of a server. The address of a proxy contains its number.
func (f *fleet) addProxy(target *url.URL) error {
	worker, proxy := len(f.proxies), httputil.NewSingleHostReverseProxy(target)
	listener, err := net.Listen("tcp", fmt.Sprintf(addressOfWorkers, strconv.Itoa(worker), f.port))
	if err != nil {
		return err
	}
	f.port = listener.Addr().(*net.TCPAddr).Port
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "load") || r.URL.Path == "/metrics" { // the gateway counts requests itself if servers do not report their load
			http.NotFound(w, r)
			return
		}
		if r.URL.Path == "/tokenize" {
			f.tokenize(w, r, proxy)
			return
		}
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/completions") {
			proxy.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var asked struct{ Prompt string }
		_ = json.Unmarshal(body, &asked)
		f.arrived <- worker
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		f.mu.Lock()
		free := f.held[asked.Prompt]
		f.mu.Unlock()
		if free != nil {
			<-free
		}
		for key, values := range answer.Header() {
			w.Header()[key] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	f.proxies = append(f.proxies, server)
	f.stops = append(f.stops, server.CloseClientConnections)
	return nil
}

// tokenize replaces the token ids of the server by ids that differ in their first hexadecimal digit. vllm-router
// writes ids as eight such digits. Thus no node of its tree ends inside a token.
func (f *fleet) tokenize(w http.ResponseWriter, r *http.Request, server http.Handler) {
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, r)
	var body map[string]json.RawMessage
	var tokens []int64
	if json.Unmarshal(answer.Body.Bytes(), &body) != nil || json.Unmarshal(body["tokens"], &tokens) != nil {
		http.Error(w, "no tokens", http.StatusInternalServerError)
		return
	}
	f.mu.Lock()
	for i, id := range tokens {
		if _, ok := f.ids[id]; !ok {
			f.ids[id] = int64(len(f.ids)) << 28 // at most 16 ids: four for the first requests, and six letters with and without a space
		}
		tokens[i] = f.ids[id]
	}
	f.mu.Unlock()
	body["tokens"], _ = json.Marshal(tokens)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// addressOfWorkers is the loopback address of a proxy, with its number and the common port.
const addressOfWorkers = "127.0.1.%s:%d"

// urlOfWorkers returns the URL pattern of the proxies. {id} is the number of a proxy.
func (f *fleet) urlOfWorkers() string {
	return "http://" + fmt.Sprintf(addressOfWorkers, "{id}", f.port)
}

func (f *fleet) startGateway(program string, args []string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	metrics, err := freePort()
	if err != nil {
		return err
	}
	args = append(args, "--host=127.0.0.1", fmt.Sprintf("--port=%d", port), fmt.Sprintf("--prometheus-port=%d", metrics), "--worker-urls")
	for _, p := range f.proxies {
		args = append(args, p.URL)
	}
	if !strings.HasSuffix(program, "vllm-router") { // sglang-router and smg
		args = append([]string{"launch"}, args...)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &f.log, &f.log
	if err := cmd.Start(); err != nil {
		return err
	}
	f.stopWith(cmd)
	f.gateway = fmt.Sprintf("http://127.0.0.1:%d", port)
	for begin := time.Now(); time.Since(begin) < startTime; time.Sleep(100 * time.Millisecond) {
		if r, err := http.Get(f.gateway + "/health"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				time.Sleep(2 * time.Second) // wait until the gateway has read the models of all servers
				return nil
			}
		}
	}
	return errors.New("the gateway does not get up: " + f.log.String())
}

// freePort returns a port that is free on all addresses, since gateways serve metrics on all addresses.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", ":0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// stopWith registers the end of a process for stop.
func (f *fleet) stopWith(cmd *exec.Cmd) {
	f.stops = append(f.stops, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
	})
}

// stop ends all processes, the gateway first.
func (f *fleet) stop() {
	for i := len(f.stops) - 1; i >= 0; i-- {
		f.stops[i]()
	}
}

// ask sends a prompt and returns the worker that received it. If free is not nil, the proxy delays the answer until
// free is closed. done receives the result of the request.
func (f *fleet) ask(prompt string, session int, free chan struct{}) (worker int, done chan error, err error) {
	if free != nil {
		f.mu.Lock()
		f.held[prompt] = free
		f.mu.Unlock()
	}
	done = make(chan error, 1)
	ctx, end := context.WithTimeout(context.Background(), 5*time.Minute)
	go func() {
		defer end()
		done <- f.post(ctx, prompt, session)
	}()
	select {
	case worker = <-f.arrived:
		return worker, done, nil
	case err := <-done:
		if err != nil {
			return 0, nil, fmt.Errorf("a request came to no worker: %w", err)
		}
		select {
		case worker = <-f.arrived: // the answer arrived at the same time
			done <- nil
			return worker, done, nil
		default:
			return 0, nil, errors.New("a request was answered and came to no worker")
		}
	case <-time.After(startTime):
		return 0, nil, errors.New("a request came to no worker")
	}
}

func (f *fleet) post(ctx context.Context, prompt string, session int) error {
	body, err := json.Marshal(map[string]any{"model": "tiny", "prompt": prompt, "max_tokens": 1})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.gateway+"/v1/completions", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if session >= 0 {
		r.Header.Set("X-Session-Id", strconv.Itoa(session))
		r.Header.Set("X-SMG-Routing-Key", strconv.Itoa(session))
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return err
}
