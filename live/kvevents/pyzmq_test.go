package kvevents

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/scheduler"
)

// python runs a script with libzmq, the reference implementation of ZeroMQ, through pyzmq. python skips the test if
// pyzmq is not installed. REPLAY_PYTHON overrides the interpreter python3.
func python(t *testing.T, script string, args ...string) (io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	name := optional.Program(t, cmp.Or(os.Getenv("REPLAY_PYTHON"), "python3"), "-c", "import zmq") // make kv-interop installs pyzmq
	c := exec.CommandContext(within(t), name, append([]string{"-u", "-c", script}, args...)...)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	return in, lines
}

func line(t *testing.T, s *bufio.Scanner) string {
	t.Helper()
	if !s.Scan() {
		t.Fatalf("the script has ended: %v", s.Err())
	}
	return s.Text()
}

// pySubscriber follows a publisher and prints its messages, then requests all of them. pySubscriber sends heartbeats
// like the published subscriber, but more often.
const pySubscriber = `
import sys, zmq
c = zmq.Context()
s = c.socket(zmq.SUB)
for k, v in ((zmq.LINGER, 0), (zmq.HEARTBEAT_IVL, 50), (zmq.HEARTBEAT_TIMEOUT, 20000), (zmq.HEARTBEAT_TTL, 20000)):
    s.setsockopt(k, v)
s.subscribe(b"kv")
s.connect(sys.argv[1])
print("ready")
n = int(sys.stdin.readline())
for _ in range(n):
    f = s.recv_multipart()
    print(f[0].decode(), int.from_bytes(f[1], "big"), f[2].hex())
d = c.socket(zmq.DEALER)
d.setsockopt(zmq.LINGER, 0)
d.connect(sys.argv[2])
while True:
    start = sys.stdin.readline()
    if not start: break
    d.send_multipart([b"", int(start).to_bytes(8, "big")])
    while True:
        f = d.recv_multipart()
        assert len(f) == 3 and f[0] == b"", f
        print(int.from_bytes(f[1], "big", signed=True), f[2].hex())
        if not f[2]: break
`

// Sockets of libzmq follow the publisher, and receive its answers.
func TestLibzmqSubscriber(t *testing.T) {
	tee := open(t, TeeOptions{Topic: "kv@0", BufferSteps: 100})
	in, out := python(t, pySubscriber, tee.Events(), tee.Replay())
	if line(t, out) != "ready" {
		t.Fatal("not ready")
	}
	for ctx := within(t); tee.Stats().Subscribers == 0; {
		if ctx.Err() != nil {
			t.Fatal("no subscriber")
		}
	}
	const n = 300
	for i := range uint64(n) {
		tee.Enqueue([]scheduler.KVEvent{store(i, scheduler.KVBlock{Seq: i + 1, Tokens: ^i})})
	}
	fmt.Fprintln(in, n)
	live := make([]string, n)
	for i := range live {
		f := strings.Fields(line(t, out))
		if f[0] != "kv@0" || f[1] != fmt.Sprint(i) {
			t.Fatalf("message %d is %v", i, f)
		}
		live[i] = f[2]
	}
	payload, err := hex.DecodeString(live[7])
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Decode(payload); err != nil || b.Events[0].TokensHashes[0] != ^uint64(7) {
		t.Errorf("message 7: %+v %v", b, err)
	}
	for from := n - 100; from <= n; from += 50 {
		fmt.Fprintln(in, from)
		for i := from; i < n; i++ {
			if got, want := line(t, out), fmt.Sprintf("%d %s", i, live[i]); got != want {
				t.Fatalf("asked for %d: %s, want %s", from, got, want)
			}
		}
		if got := line(t, out); got != "-1 " {
			t.Fatalf("asked for %d: %s, want the end", from, got)
		}
	}
	fmt.Fprintln(in, 0)
	for i, want := range []string{fmt.Sprintf("-2 %016x", n-1), fmt.Sprintf("%d ", n-1), fmt.Sprintf("%d ", n-1), "-1 "} {
		if got := line(t, out); !strings.HasPrefix(got, want) {
			t.Errorf("frame %d of the snapshot is %.40s, want %s", i, got, want)
		}
	}
}

// pyPublisher publishes its input, one line of hexadecimal digits per batch, and answers requests from all published
// batches. pyPublisher publishes live after a subscriber has connected.
const pyPublisher = `
import sys, zmq, threading
c = zmq.Context()
p = c.socket(zmq.XPUB)
p.setsockopt(zmq.LINGER, 0)
pp = p.bind_to_random_port("tcp://127.0.0.1")
r = c.socket(zmq.ROUTER)
r.setsockopt(zmq.LINGER, 0)
rp = r.bind_to_random_port("tcp://127.0.0.1")
print("tcp://127.0.0.1:%d tcp://127.0.0.1:%d" % (pp, rp))
kept = []
def answer():
    while r.poll(0):
        f = r.recv_multipart()
        assert len(f) == 3 and f[1] == b"", f
        start = int.from_bytes(f[2], "big")
        for n in range(start, len(kept)):
            r.send_multipart([f[0], b"", n.to_bytes(8, "big"), kept[n]])
        r.send_multipart([f[0], b"", b"\xff" * 8, b""])
poll = zmq.Poller()
poll.register(r, zmq.POLLIN)
poll.register(sys.stdin, zmq.POLLIN)
poll.register(p, zmq.POLLIN)
while True:
    for what, _ in poll.poll():
        if what == r: answer()
        elif what == p: print("subscription", p.recv()[:1].hex())
        else:
            l = sys.stdin.buffer.raw.readline().decode().split()
            if not l: sys.exit()
            kept.append(bytes.fromhex(l[1]))
            if l[0] == "live":
                p.send_multipart([b"", (len(kept) - 1).to_bytes(8, "big"), kept[-1]])
`

// A subscriber follows a publisher on libzmq's sockets. Batches contain tokens, as those of other publishers, and the
// subscriber fills the gaps.
func TestLibzmqPublisher(t *testing.T) {
	in, out := python(t, pyPublisher)
	ends := strings.Fields(line(t, out))
	payload := func(i uint64) string {
		b := Batch{Time: 1, Events: []Event{{Kind: Stored, Blocks: []uint64{i + 1}, Parent: i, HasParent: i > 0, Tokens: []uint32{uint32(i), 1, 2, 3}, BlockTokens: 4}}}
		return hex.EncodeToString(b.Append(nil))
	}
	for i := range uint64(5) {
		fmt.Fprintln(in, "kept", payload(i))
	}
	x := NewIndex(func(s string) { t.Error(s) })
	s, err := Subscribe(SubscriberOptions{Events: ends[0], Replay: ends[1], BlockTokens: 4, Sink: x.Feed(0)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := line(t, out); got != "subscription 01" {
		t.Fatal(got)
	}
	if err := s.Applied(within(t), 5); err != nil {
		t.Fatal(err)
	}
	for i := uint64(5); i < 200; i++ { // every third batch is lost
		how := "live"
		if i%3 == 0 {
			how = "kept"
		}
		fmt.Fprintln(in, how, payload(i))
	}
	if err := s.Applied(within(t), 200); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats(); got.Incomplete+got.Undecodable+got.Restarts > 0 || got.Gaps == 0 {
		t.Errorf("%+v", got)
	}
	if x.Size() != 200 || blocksOf(x) != 200 {
		t.Errorf("%d blocks, %d to be found, want 200", x.Size(), blocksOf(x))
	}
}
