package cancel

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"time"
)

// want checks the state of a context through all its methods.
func want(t *testing.T, c Context, state int32) {
	t.Helper()
	closed := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	if c.IsStopped() != (state >= stopped) || closed(c.Stopped()) != (state >= stopped) {
		t.Errorf("%s: stopped is %v (channel %v), want %v", c.ID(), c.IsStopped(), closed(c.Stopped()), state >= stopped)
	}
	if c.IsKilled() != (state >= killed) || closed(c.Killed()) != (state >= killed) {
		t.Errorf("%s: killed is %v (channel %v), want %v", c.ID(), c.IsKilled(), closed(c.Killed()), state >= killed)
	}
}

// States only increase, for any order and number of calls.
func TestStatesRise(t *testing.T) {
	tests := []struct {
		name string
		do   func(Context)
		want int32
	}{
		{"nothing", func(Context) {}, live},
		{"stop", Context.Stop, stopped},
		{"stop twice", func(c Context) { c.Stop(); c.Stop() }, stopped},
		{"kill", Context.Kill, killed},
		{"stop then kill", func(c Context) { c.Stop(); c.Kill() }, killed},
		{"kill then stop", func(c Context) { c.Kill(); c.Stop() }, killed},
		{"linked to itself", func(c Context) { c.LinkChild(c); c.Stop() }, stopped},
		{"linked to itself late", func(c Context) { c.Kill(); c.LinkChild(c) }, killed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := New(test.name)
			test.do(c)
			want(t, c, test.want)
		})
	}
}

// If two contexts are children of each other, a signal to either ends both.
func TestMutualLinks(t *testing.T) {
	for _, state := range []int32{stopped, killed} {
		for _, second := range []bool{false, true} {
			a, b := New("a"), New("b")
			a.LinkChild(b)
			b.LinkChild(a)
			c := a
			if second {
				c = b
			}
			raiseContext(c, state)
			want(t, a, state)
			want(t, b, state)
		}
	}
}

// A child that is linked after a signal receives the signal at once. An unlinked child receives none.
func TestLateAndUnlinked(t *testing.T) {
	for _, state := range []int32{stopped, killed} {
		parent, late, gone := New("parent"), New("late"), New("gone")
		parent.LinkChild(gone)
		parent.LinkChild(gone)
		parent.Unlink(gone)
		parent.Unlink(gone)
		raiseContext(parent, state)
		parent.LinkChild(late)
		want(t, late, state)
		want(t, gone, live)
	}
	parent, child := New("parent"), New("child")
	parent.LinkChild(child)
	child.Kill()
	want(t, parent, live)
}

// probe records the calls of a Context and forwards them.
type probe struct {
	Context
	note func(string)
}

func (p *probe) Stop() { p.note("stop " + p.ID()); p.Context.Stop() }
func (p *probe) Kill() { p.note("kill " + p.ID()); p.Context.Kill() }

// A signal passes depth first through a tree of 1, 3 and 9 contexts, in the order of the links. A node shows its
// state after its children.
func TestTreeOrder(t *testing.T) {
	for _, word := range []string{"stop", "kill"} {
		var got, expect []string
		root := New("0")
		for i := range 3 {
			child := New(fmt.Sprint("0.", i))
			root.LinkChild(&probe{child, func(s string) {
				if root.IsStopped() {
					t.Errorf("%s: the root shows its state before its children know", s)
				}
				got = append(got, s)
			}})
			expect = append(expect, word+" "+child.ID())
			for j := range 3 {
				leaf := New(fmt.Sprint("0.", i, ".", j))
				child.LinkChild(&probe{leaf, func(s string) {
					if child.IsStopped() {
						t.Errorf("%s: its parent shows its state before", s)
					}
					got = append(got, s)
				}})
				expect = append(expect, word+" "+leaf.ID())
			}
		}
		if word == "stop" {
			root.Stop()
		} else {
			root.Kill()
		}
		if !slices.Equal(got, expect) {
			t.Errorf("order of calls\n%q, want\n%q", got, expect)
		}
	}
}

// A thousand goroutines link, stop and kill contexts at random. No call hangs, and in the end the state of every
// context is at least that of its parents.
func TestManyAtOnce(t *testing.T) {
	const contexts, actors = 40, 1000
	all := make([]Context, contexts)
	for i := range all {
		all[i] = New(fmt.Sprint(i))
	}
	var mu sync.Mutex
	type link struct{ parent, child int }
	var links []link
	var wg sync.WaitGroup
	start := make(chan struct{})
	for a := range actors {
		wg.Go(func() {
			r := rand.New(rand.NewSource(int64(a)))
			i, j := r.Intn(contexts), r.Intn(contexts)
			<-start
			switch {
			case a%10 < 6:
				all[i].LinkChild(all[j])
				mu.Lock()
				links = append(links, link{i, j})
				mu.Unlock()
			case a%100 == 7:
				all[i].Stop()
			case a%100 == 8:
				all[i].Kill()
			default:
				if all[i].IsKilled() && !all[i].IsStopped() {
					t.Errorf("%d is killed and not stopped", i)
				}
			}
		})
	}
	close(start)
	wg.Wait()
	state := func(c Context) int32 { return c.(*node).state.Load() }
	for _, l := range links {
		if p, c := state(all[l.parent]), state(all[l.child]); c < p {
			t.Errorf("%d is in state %d and its child %d in %d", l.parent, p, l.child, c)
		}
	}
	for _, c := range all {
		want(t, c, state(c))
	}
}

// A parent does not keep unlinked children.
func TestParentDoesNotGrow(t *testing.T) {
	parent := New("").(*node)
	for range 1000 {
		c := New("")
		parent.LinkChild(c)
		parent.Unlink(c)
	}
	if len(parent.children) != 0 {
		t.Errorf("%d children, want none", len(parent.children))
	}
}

func TestIDs(t *testing.T) {
	if c := New(""); !IsID(c.ID()) {
		t.Errorf("id %q, want a UUID", c.ID())
	}
	if c := New("mine"); c.ID() != "mine" || IsID(c.ID()) {
		t.Errorf("id %q, want mine, which is no UUID", c.ID())
	}
	if IsID("{" + NewID() + "}") {
		t.Error("a UUID in braces is not the usual form")
	}
}

// A context.Context from WithGo or WithStop ends with the request, and so do contexts derived from it.
func TestWithGo(t *testing.T) {
	c := New("")
	onKill := WithGo(c)
	onStop, release := WithStop(onKill, c)
	defer release()
	derived, end := context.WithCancel(onStop)
	defer end()
	if onKill.Err() != nil || onStop.Err() != nil {
		t.Fatal("ended before it was cancelled")
	}
	if _, has := onKill.Deadline(); has {
		t.Error("a deadline out of nowhere")
	}
	if got, ok := From(derived); !ok || got != c {
		t.Error("the derived context does not know the request")
	}
	c.Stop()
	<-onStop.Done()
	<-derived.Done()
	if onKill.Err() != nil {
		t.Error("a stop ended what ends with a kill")
	}
	c.Kill()
	<-onKill.Done()
	for _, ctx := range []context.Context{onKill, onStop, derived} {
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("ended with %v, want %v", ctx.Err(), context.Canceled)
		}
	}
}

// A request that stops in time is not killed.
func TestStopThenKill(t *testing.T) {
	over := make(chan struct{})
	slow := New("")
	StopThenKill(slow, over, time.Millisecond)
	want(t, slow, killed)
	close(over)
	quick := New("")
	StopThenKill(quick, over, time.Minute)
	want(t, quick, stopped)
}

// A request from FromGo stops when its context.Context ends, and when the request that this context serves is
// stopped.
func TestFromGo(t *testing.T) {
	ctx, end := context.WithCancel(context.Background())
	c, release := FromGo(ctx, "r")
	defer release()
	want(t, c, live)
	end()
	<-c.Stopped()
	want(t, c, stopped)

	outer := New("outer")
	inner, release := FromGo(With(context.Background(), outer), outer.ID())
	outer.Kill()
	want(t, inner, killed)
	release()

	outer = New("outer")
	freed, release := FromGo(With(context.Background(), outer), outer.ID())
	release()
	outer.Kill()
	want(t, freed, live)
	if _, ok := From(context.Background()); ok {
		t.Error("a bare context knows a request")
	}
}

func FuzzLinks(f *testing.F) {
	f.Add([]byte{0, 1, 1, 2, 2, 0, 0xf0, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		all := make([]Context, 6)
		for i := range all {
			all[i] = New(fmt.Sprint(i))
		}
		model := newModel(len(all))
		for i := 0; i+1 < len(ops); i += 2 {
			a, b := int(ops[i]&15)%len(all), int(ops[i+1])%len(all)
			switch ops[i] >> 4 {
			case 15:
				all[a].Stop()
				model.rise(a, stopped)
			case 14:
				all[a].Kill()
				model.rise(a, killed)
			case 13:
				all[a].Unlink(all[b])
				model.links[a][b] = false
			default:
				all[a].LinkChild(all[b])
				model.links[a][b] = true
				model.rise(b, model.state[a])
			}
		}
		for i, c := range all {
			want(t, c, model.state[i])
		}
	})
}

// model is the expected result of links and signals, without concurrency.
type model struct {
	state []int32
	links [][]bool
}

func newModel(n int) *model {
	m := &model{make([]int32, n), make([][]bool, n)}
	for i := range m.links {
		m.links[i] = make([]bool, n)
	}
	return m
}

func (m *model) rise(i int, to int32) {
	if m.state[i] >= to {
		return
	}
	m.state[i] = to
	for j, linked := range m.links[i] {
		if linked {
			m.rise(j, to)
		}
	}
}
