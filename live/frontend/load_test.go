package frontend_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		if err := serveAlone(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var heavyLoad = flag.Bool("load", false, "load a frontend with 10,000 idle connections, slow senders and large bodies; requires 12,000 open files")

// loadMemory is the limit of the memory of a frontend with 10,000 idle connections, 1,000 slow senders and 500
// bodies above the size limit, in MiB.
const loadMemory = 512

// A frontend under this load continues to serve, with the right statuses and in limited memory.
func TestHeavyLoad(t *testing.T) {
	if !*heavyLoad {
		t.Skip("skipped: only with -load (make frontend-load)")
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), asServer+"=1")
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = command.Wait() }()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s := &site{address: strings.TrimSpace(address), client: &http.Client{Timeout: timeLimit}}
	pid := command.Process.Pid
	before := memory(t, pid)

	idle := make([]net.Conn, 10_000)
	for i := range idle {
		idle[i] = s.dial(t, raw("/v1/completions", `{"model":"m","prompt":"a","max_tokens":1}`))
		if got := status(t, idle[i]); got != http.StatusOK {
			t.Fatalf("connection %d: status %d", i, got)
		}
	}
	t.Logf("10,000 idle connections: %d MiB, %d MiB before", memory(t, pid), before)
	for i := range 1000 {
		if i%2 == 0 {
			s.dial(t, "POST /v1/completions HTTP/1.1\r\nHost:")
		} else {
			s.dial(t, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
		}
	}
	var tooLarge, busy, other int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			length := int64(16 << 20)
			if i%2 == 1 {
				length = -1 // the length is unknown
			}
			code := s.great(length)
			mu.Lock()
			defer mu.Unlock()
			switch code {
			case http.StatusRequestEntityTooLarge:
				tooLarge++
			case http.StatusServiceUnavailable:
				busy++
			default:
				other++
			}
		})
	}
	worst := time.Duration(0)
	for range 200 {
		at := time.Now()
		if r, body := s.post(t, "/v1/completions", `{"model":"m","prompt":"a","max_tokens":5}`); r.StatusCode != http.StatusOK {
			t.Errorf("under load: %d %s", r.StatusCode, body)
		}
		worst = max(worst, time.Since(at))
	}
	all.Wait()
	now := memory(t, pid)
	t.Logf("with 1,000 slow senders and 500 bodies of 16 MiB: %d MiB; %d answers of 413, %d of 503, %d cut off; an ordinary request took at most %v", now, tooLarge, busy, other, worst)
	if now > loadMemory {
		t.Errorf("%d MiB, want at most %d", now, loadMemory)
	}
	if tooLarge == 0 {
		t.Error("no answer of 413")
	}
}

// great sends a body above the size limit and returns the status, or 0 if the connection was closed during the body.
func (s *site) great(length int64) int {
	body := io.LimitReader(spaces{}, 16<<20)
	rq, err := http.NewRequest(http.MethodPost, "http://"+s.address+"/v1/completions", body)
	if err != nil {
		return 0
	}
	rq.ContentLength = length
	r, err := s.client.Do(rq)
	if err != nil {
		return 0
	}
	r.Body.Close()
	return r.StatusCode
}

// spaces is an endless reader of spaces.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// memory returns the peak memory of a process in MiB.
func memory(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n >> 10
		}
	}
	t.Fatalf("no VmHWM in %s", b)
	return 0
}
