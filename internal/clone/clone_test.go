package clone_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/clone"
)

type leaf struct{ n int }

type shape interface{ area() int }

type square struct{ side *leaf }

func (s square) area() int { return s.side.n * s.side.n }

type fixed struct{ v []int }

type state struct {
	a, b    *leaf
	inside  *int // points into *a
	all     []leaf
	tail    []leaf // the last elements of all
	item    *leaf  // an element of all
	names   map[string]*leaf
	counts  map[int]int
	again   map[int]int // the same map as counts
	boxed   shape
	pointed any
	random  *rand.Rand
	self    *state
	keep    *fixed
	none    func()
	nested  [2]struct{ p *leaf }
}

func newState() *state {
	s := &state{a: &leaf{1}, all: []leaf{{10}, {11}, {12}, {13}}, counts: map[int]int{1: 2}}
	s.b, s.inside, s.tail, s.item = s.a, &s.a.n, s.all[2:], &s.all[1]
	s.names = map[string]*leaf{"a": s.a, "last": &s.all[3]}
	s.again, s.boxed, s.pointed = s.counts, square{s.item}, s.a
	s.random, s.self, s.keep = rand.New(rand.NewPCG(1, 2)), s, &fixed{[]int{7}}
	s.nested[1].p = s.a
	return s
}

// TestCopiesKeepTheShape changes fields of a copy and checks that the change is visible through every alias in the
// copy, and not in the original.
func TestCopiesKeepTheShape(t *testing.T) {
	s := newState()
	c, err := clone.Of(clone.New(reflect.TypeFor[fixed]()), s)
	if err != nil {
		t.Fatal(err)
	}
	if c.a == s.a || c.a != c.b || c.inside != &c.a.n || c.names["a"] != c.a || c.pointed != c.a || c.nested[1].p != c.a {
		t.Error("pointers to one thing are not pointers to one copy")
	}
	if &c.tail[0] != &c.all[2] || c.item != &c.all[1] || c.names["last"] != &c.all[3] || &c.all[0] == &s.all[0] {
		t.Error("slices do not share what they shared")
	}
	if c.self != c || c.keep != s.keep {
		t.Error("a pointer to itself, or what is shared, is another")
	}
	c.counts[1] = 3
	if c.again[1] != 3 || s.counts[1] != 2 {
		t.Error("maps do not share what they shared")
	}
	if c.item.n = 5; c.boxed.area() != 25 || s.boxed.area() != 121 {
		t.Error("a value in an interface does not share what it shared")
	}
	if a, b := c.random.Uint64(), s.random.Uint64(); a != b {
		t.Errorf("random numbers are %d and %d", a, b)
	}
}

// TestOverlaps copies overlapping slices of one array.
func TestOverlaps(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	s := &[3][]int{all[0:3:3], all[2:5:5], all[4:6]}
	c, err := clone.Of(clone.New(), s)
	if err != nil {
		t.Fatal(err)
	}
	c[1][0], c[1][2] = 20, 40
	if c[0][2] != 20 || c[2][0] != 40 || all[2] != 2 {
		t.Errorf("got %v of %v", *c, all)
	}
}

// TestFunctionsAreNamed checks that a function or a channel causes an error.
func TestFunctionsAreNamed(t *testing.T) {
	for _, change := range []func(*state){
		func(s *state) { s.none = func() {} },
		func(s *state) { s.pointed = &struct{ c chan int }{make(chan int)} },
		func(s *state) { s.pointed = map[int]func(){1: func() {}} },
	} {
		s := newState()
		change(s)
		_, err := clone.Of(clone.New(reflect.TypeFor[fixed]()), s)
		if err == nil || !strings.Contains(err.Error(), "cannot be copied") {
			t.Errorf("got %v", err)
		}
	}
}
