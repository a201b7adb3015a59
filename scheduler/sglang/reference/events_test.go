package reference

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/sim"
)

// eventLog returns the events of a run, one per line.
func eventLog(t *testing.T, c sglang.Config, traceBlock int, trace []line) string {
	t.Helper()
	c.Capture = scheduler.CaptureEvents
	var b strings.Builder
	mustPlay(t, c, traceBlock, trace, func(_ *Core, p *scheduler.Pass) {
		if !p.KVAtEnd {
			t.Error("events are visible at the start of the pass, want at the end")
		}
		for _, e := range p.Events {
			b.WriteString(describe(e))
		}
	})
	return b.String()
}

func describe(e scheduler.KVEvent) string {
	var b strings.Builder
	switch {
	case len(e.Removed) > 0:
		fmt.Fprintf(&b, "removed %v", e.Removed)
	case e.HasParent:
		fmt.Fprintf(&b, "stored after %d:", e.Parent)
	default:
		b.WriteString("stored:")
	}
	for _, k := range e.Stored {
		fmt.Fprintf(&b, " %d(%d)", k.Seq, k.Tokens)
	}
	fmt.Fprintf(&b, " rank %d\n", e.Rank)
	return b.String()
}

// Events follow docs/rules/sglang.md "The reference's rules": single tokens with private hashes. Slot numbers are the
// values of generated tokens.
func TestCompatEvents(t *testing.T) {
	c := config(1, 9)
	c.Rank = 3
	got := eventLog(t, c, 4, []line{r(0, 3, 2, 1), r(100, 3, 1, 2), r(200, 3, 1, 3)})
	want := outdent(`
		stored: 4421149418906965520(6581362553819431323) 15768499766173679041(6581362553819431323) 5362605369042125975(6581362553819431323) rank 3
		stored after 5362605369042125975: 10844601059819243024(151252707604475938) rank 3
		stored after 10844601059819243024: 3599173281431281863(16170121723155975220) rank 3
		stored: 56577345269989568(12599773210602128107) 3054729703192709718(12599773210602128107) 16580515781022222482(12599773210602128107) rank 3
		stored after 16580515781022222482: 5936718221325887479(3832514648534543363) rank 3
		removed [3599173281431281863 4421149418906965520 15768499766173679041 5362605369042125975 10844601059819243024] rank 3
		stored: 11576683065396413440(151252707604475938) 4257585241579891527(151252707604475938) 10445672988538761844(151252707604475938) rank 3
		stored after 10445672988538761844: 633359189652714846(12599773210602128107) rank 3`)
	if got != want {
		t.Errorf("events are\n%swant\n%s", got, want)
	}
}

// The second of two prompts with a common prefix in a batch publishes only its new tokens.
func TestCompatEventsOfDuplicates(t *testing.T) {
	got := eventLog(t, config(1, 64), 4, []line{r(0, 6, 2, 7, 8), r(0, 6, 2, 7, 9)})
	lines := strings.Split(got, "\n")
	const want = "stored after 4369926655761279084: 12036663694635751673("
	if !strings.HasPrefix(lines[1], want) || !strings.Contains(lines[1], " 174990411935044131(") {
		t.Errorf("the second request's prompt is announced as\n%s\nwant %s…) 174990411935044131(…)", lines[1], want)
	}
}

// Local hashes and names of tokens (docs/rules/sglang.md "The reference's rules").
func TestTokenHashes(t *testing.T) {
	for _, v := range []struct{ token, want uint64 }{
		{0, 6964963774696201994}, {1, 6581362553819431323}, {7, 9300033212029501789}, {8, 3832514648534543363},
	} {
		if got := tokenHash(v.token); got != v.want {
			t.Errorf("hash of token %d is %d, want %d", v.token, got, v.want)
		}
	}
	once := sipChain(0, tokenHash(7))
	if twice := sipChain(once, tokenHash(7)); once != 8262545890543881693 || twice != 16813623583735540227 {
		t.Errorf("chain over token 7 is %d, %d, want 8262545890543881693, 16813623583735540227", once, twice)
	}
}

// Example E11: cached blocks that do not count as evictable block the pool forever.
func TestStall(t *testing.T) {
	c := config(1, 100)
	x := newRun(&c, 64, []line{r(0, 60, 5, 1), r(100, 60, 5, 2)})
	core, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	err = x.play(core)
	var stall *scheduler.StallError
	if !errors.As(err, &stall) || stall.Request != 1 || !strings.Contains(stall.Reason, "needs 65 tokens, must be less than 36 (35 free, 1 evictable, pool of 100)") {
		t.Errorf("error is %v, want a stall of request 1 that needs 65 tokens where there are 36", err)
	}
	if x.now != 164.046922 {
		t.Errorf("stalled at %v, want 164.046922", x.now)
	}
}

// Section 9.2, last row: the only running request has outgrown the pool.
func TestStallOfTheLastRunning(t *testing.T) {
	c := with(config(1, 100), clip1)
	x := newRun(&c, 64, []line{r(0, 50, 60, 1)})
	core, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	err = x.play(core)
	if err == nil || !strings.Contains(err.Error(), "outgrown") {
		t.Errorf("error is %v, want that request 0 has outgrown the pool", err)
	}
	c.Pages = 110
	x = newRun(&c, 64, []line{r(0, 50, 60, 1)})
	if core, err = New(c); err != nil {
		t.Fatal(err)
	}
	if err := x.play(core); err != nil || x.tokens[0] != 60 {
		t.Errorf("in 110 pages: %d tokens, error %v, want 60 and none", x.tokens[0], err)
	}
}

// Section 9.2: no chunk fits for the prompts of the test.
func TestStallForWantOfAChunk(t *testing.T) {
	for _, e := range []struct {
		page, chunk, prefill, in int
		stalls                   bool
	}{
		{1, 8192, 999, 1000, true},
		{1, 8192, 1000, 1000, false},
		{1, 999, 999, 1000, false},
		{1, 500, 100, 1000, true},
		{48, 8192, 16384, 8161, true},
		{48, 8192, 16384, 8160, false},
		{48, 8192, 16384, 9000, false},
	} {
		c := config(e.page, 100000/e.page)
		c.ChunkTokens, c.MaxPrefillTokens = e.chunk, e.prefill
		x := newRun(&c, 10000, []line{r(0, e.in, 1, 1)})
		core, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		err = x.play(core)
		if e.stalls && (err == nil || !strings.Contains(err.Error(), "no chunk of it")) || !e.stalls && err != nil {
			t.Errorf("%+v: error %v", e, err)
		}
	}
}

// Example E13: a pass of a prefill worker includes a decode step, and the prefill of a decode worker takes no time.
func TestDisaggregated(t *testing.T) {
	c := config(1, 16384)
	c.Role, c.Transfer = scheduler.Prefill, scheduler.Transfer{GBPerSecond: 64, BytesPerToken: 131072}
	var handoff sim.Time
	x := mustPlay(t, c, 512, []line{r(0, 1000, 3, 0, 1)}, func(_ *Core, p *scheduler.Pass) {
		handoff = p.Marks[0].Handoff
	})
	if x.now != 41.046479000000005 || handoff != 2.048 || x.tokens[0] != 1 {
		t.Errorf("prefill ends at %v after %d tokens, handoff %v, want 41.046479000000005, 1, 2.048", x.now, x.tokens[0], handoff)
	}
	c.Role = scheduler.Decode
	x = mustPlay(t, c, 512, []line{r(x.now+handoff, 1000, 3, 0, 1)}, nil)
	if x.first[0] != 52.035099 || x.second[0] != 60.978823000000006 || x.now != 69.925652 {
		t.Errorf("tokens at %v, %v, %v, want 52.035099, 60.978823000000006, 69.925652", x.first[0], x.second[0], x.now)
	}
}
