package kvevents

import (
	"bufio"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
)

var (
	measure = flag.Bool("kv-snapshot", false, "measure snapshots of 89,700 blocks and kill subscribers 50 times")
	rounds  = flag.Int("kv-rounds", 50, "how often subscribers are killed")
)

// followerVariable is the environment variable that makes the test binary run a subscriber.
const followerVariable = "KVEVENTS_TEST_FOLLOWER"

func TestMain(m *testing.M) {
	if ends := os.Getenv(followerVariable); ends != "" {
		if err := beFollower(strings.Fields(ends)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// beFollower follows a publisher. For each input line "NEXT SEED QUERIES" it waits until its index has all batches
// below NEXT, and prints the index's answers.
func beFollower(ends []string) error {
	var orphans atomic.Int64
	x := NewIndex(func(text string) {
		if strings.Contains(text, router.NoParent) {
			orphans.Add(1)
		}
	})
	s, err := Subscribe(SubscriberOptions{Events: ends[0], Replay: ends[1], BlockTokens: blockTokens, Sink: x.Feed(0)})
	if err != nil {
		return err
	}
	defer s.Close()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var next, seed uint64
		var queries int
		if _, err := fmt.Sscan(in.Text(), &next, &seed, &queries); err != nil {
			return err
		}
		poll.Wait(func() bool { return s.Stats().Next >= next })
		fmt.Printf("%s; %d snapshots, %d orphans\n", answers(x, seed, queries), s.Stats().Snapshots, orphans.Load())
	}
	return in.Err()
}

// followedLength is the number of blocks of the longest prompt in the load for followers.
const followedLength = 20

// asked returns the number of queries of a comparison.
func asked() int {
	if *measure {
		return 10_000
	}
	return 1000
}

// answers returns a digest of an index's answers to n queries, and the size of the index.
func answers(x *Index, seed uint64, n int) string {
	l := newLoad(0, 1, followedLength)
	h := fnv.New64a()
	hits := 0
	for _, q := range l.queries(seed, n) {
		for _, m := range x.Match(q, nil) {
			hits++
			fmt.Fprintln(h, m)
		}
		fmt.Fprintln(h, "-")
	}
	return fmt.Sprintf("%016x of %d hits in %d blocks, %d to be found", h.Sum64(), hits, x.Size(), blocksOf(x))
}

// follower is a subscriber in a separate process.
type follower struct {
	*exec.Cmd
	in  *os.File
	out *bufio.Scanner
}

func startFollower(t *testing.T, tee *Tee) *follower {
	t.Helper()
	f := &follower{Cmd: exec.Command(os.Args[0])}
	f.Env = append(os.Environ(), followerVariable+"="+tee.Events()+" "+tee.Replay())
	f.Stderr = os.Stderr
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f.Stdin, f.in = read, write
	out, err := f.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.out = bufio.NewScanner(out)
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	return f
}

func (f *follower) kill() {
	_ = f.Process.Kill()
	_ = f.Wait()
	_ = f.in.Close()
}

// killed publishes a load, and meanwhile kills and restarts a subscriber at random moments. In the end, killed
// compares the subscriber's index with its own index.
func killed(t *testing.T, seed uint64, most int) {
	t.Helper()
	tee := open(t, TeeOptions{BufferSteps: 64})
	own := NewIndex(nil)
	feed := own.Feed(0)
	l := newLoad(seed, 2000, followedLength)
	rng := rand.New(rand.NewPCG(seed, 3))
	f := startFollower(t, tee)
	defer func() { f.kill() }()
	next := uint64(0)
	deaths := 0
	dies := rng.IntN(most / 2)
	for pass := range most {
		events := l.step(t)
		if n := tee.Enqueue(events); n > 0 {
			t.Fatalf("%d events dropped", n)
		}
		feed.Take(changesOf(events))
		next += uint64(len(events))
		if pass == dies && deaths < 3 {
			f.kill()
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond) // queued events are published meanwhile
			f = startFollower(t, tee)
			deaths++
			dies = pass + 1 + rng.IntN(most/3)
		}
		if pass%8 == 0 {
			time.Sleep(time.Duration(rng.IntN(400)) * time.Microsecond)
		}
	}
	published(t, tee, next)
	if _, err := fmt.Fprintln(f.in, next, seed+1, asked()); err != nil {
		t.Fatal(err)
	}
	if !f.out.Scan() {
		t.Fatalf("the subscriber has ended: %v", f.out.Err())
	}
	got, want := f.out.Text(), answers(own, seed+1, asked())
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, ", 0 orphans") {
		t.Errorf("seed %d, %d events, killed %d times: %s, want %s and no orphan", seed, next, deaths, got, want)
	}
	if testing.Verbose() {
		t.Logf("seed %d: %d events, killed %d times: %s", seed, next, deaths, got)
	}
}

// A subscriber process that is killed and restarted under load ends with the same index as the publisher.
func TestKilledSubscriber(t *testing.T) {
	if !*measure {
		killed(t, 1, passes(1000))
		return
	}
	good := 0
	for seed := range *rounds {
		if t.Run(fmt.Sprint(seed), func(t *testing.T) { killed(t, uint64(seed), 6000) }) {
			good++
		}
	}
	t.Logf("%d of %d subscribers, killed and started again under load, ended with the publisher's index", good, *rounds)
}

// wide fills a cache with at least n blocks, in trees of prompts of up to 150 blocks.
func wide(t *testing.T, n int, enqueue func([]scheduler.KVEvent)) *load {
	t.Helper()
	l := newLoad(9, n+2000, 150)
	l.most = 64
	for l.detail.Cached+l.detail.Held < n {
		enqueue(l.step(t))
	}
	l.drain(t, enqueue)
	return l
}

// A new subscriber loads a snapshot of 89,700 blocks while events continue. Snapshot, transfer over loopback and
// rebuild take less than a second. No block lacks its parent, and the index answers like the publisher's.
func TestLargeSnapshot(t *testing.T) {
	blocks := passes(4_000)
	if *measure {
		blocks = 89_700
	}
	tee := open(t, TeeOptions{BufferSteps: 16})
	own := NewIndex(nil)
	feed := own.Feed(0)
	next := uint64(0)
	publish := func(events []scheduler.KVEvent) {
		if n := tee.Enqueue(events); n > 0 {
			t.Fatalf("%d events dropped", n)
		}
		feed.Take(changesOf(events))
		next += uint64(len(events))
	}
	l := wide(t, blocks, publish)
	published(t, tee, next)
	for _, c := range []struct {
		name          string
		joining, live int
	}{{"one, nothing else going on", 1, 0}, {"one, 3,250 live events", 1, 3250}, {"three at once, 3,250 live events", 3, 3250}} {
		t.Run(c.name, func(t *testing.T) {
			began, state := time.Now(), next
			indexes, subscribers := make([]*Index, c.joining), make([]*Subscriber, c.joining)
			rebuilt := make([]time.Duration, c.joining)
			var waiting sync.WaitGroup
			for i := range indexes {
				indexes[i] = NewIndex(func(s string) { t.Errorf("a change that did not fit: %s", s) })
				subscribers[i] = follow(t, tee, indexes[i])
				waiting.Go(func() {
					if err := subscribers[i].Applied(within(t), state); err != nil {
						t.Error(err)
					}
					rebuilt[i] = time.Since(began)
				})
			}
			for next < state+uint64(c.live) {
				publish(l.step(t))
			}
			waiting.Wait()
			for _, s := range subscribers {
				if err := s.Applied(within(t), next); err != nil {
					t.Fatal(err)
				}
			}
			queries := l.queries(11, asked())
			for i, x := range indexes {
				hits := sameAnswers(t, x, own, queries)
				s := subscribers[i].Stats()
				if x.Size() != own.Size() || x.Size() < blocks || s.Snapshots < 1 {
					t.Errorf("%d blocks, want %d and at least %d; %+v", x.Size(), own.Size(), blocks, s)
				}
				t.Logf("%s: %d blocks in the end, rebuilt after %d ms, 0 orphans, %d queries answered as by the publisher, %d with blocks; %d live batches",
					c.name, x.Size(), rebuilt[i].Milliseconds(), len(queries), hits, s.Live)
				if *measure && c.joining == 1 && rebuilt[i] > time.Second {
					t.Errorf("it took %v, want less than 1 s", rebuilt[i])
				}
			}
		})
	}
}
