//go:build js && wasm

// Program wasm is the simulator inside the explorer's page: it receives files and questions from the page's worker
// (report/html/assets/worker.js), and answers as replay ui.
package main

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"syscall/js"
	"time"

	"github.com/replay-llm/replay/internal/cmd/explore"
	"github.com/replay-llm/replay/internal/json"
)

// restEvery is the time that a run blocks the worker before it checks for a request to stop.
const restEvery = 50 * time.Millisecond

// simulator answers questions of the worker.
type simulator struct {
	session *explore.Session
	ends    map[int]context.CancelFunc // of questions that are open, by number
	rested  time.Time
	woken   chan struct{}
	wake    js.Func
}

func main() {
	// The run and the garbage collector share one core.
	debug.SetGCPercent(400)
	s := &simulator{session: explore.New(), ends: map[int]context.CancelFunc{}, woken: make(chan struct{}, 1)}
	s.session.Progress = s.rest
	s.wake = js.FuncOf(func(js.Value, []js.Value) any {
		s.woken <- struct{}{}
		return nil
	})
	for _, name := range listStrings("replayTraces") {
		if err := s.session.AddFile(name); err != nil {
			panic(err)
		}
	}
	s.session.Carry(listStrings("replayCarried")...)
	js.Global().Set("replayAsk", js.FuncOf(func(_ js.Value, args []js.Value) any {
		go s.answer(args[0].Int(), args[1].String(), args[2].String())
		return nil
	}))
	js.Global().Set("replayEnd", js.FuncOf(func(_ js.Value, args []js.Value) any {
		if end := s.ends[args[0].Int()]; end != nil {
			end()
		}
		return nil
	}))
	js.Global().Call("replayBegun")
	select {}
}

// listStrings returns a list of strings that the worker has set.
func listStrings(name string) []string {
	list := js.Global().Get(name)
	all := make([]string, list.Length())
	for i := range all {
		all[i] = list.Index(i).String()
	}
	return all
}

// rest lets the worker receive messages at intervals during a run.
func (s *simulator) rest(int, int) {
	if time.Since(s.rested) < restEvery {
		return
	}
	js.Global().Call("replayRest", s.wake)
	<-s.woken
	s.rested = time.Now()
}

// answer answers the question with this number.
func (s *simulator) answer(number int, name, body string) {
	ctx, end := context.WithCancel(context.Background())
	s.ends[number] = end
	defer delete(s.ends, number)
	defer end()
	s.rested = time.Now()
	found, err := s.ask(ctx, name, body)
	if err != nil {
		found = explore.Refuse(err)
	}
	text, broken := json.Marshal(found)
	if broken != nil {
		err, text = broken, []byte(`{"error": "the answer is no JSON"}`)
	}
	js.Global().Call("replayAnswer", number, err == nil, string(text))
	collectWhileDrawn()
}

// collectWhileDrawn collects the garbage of a run while the page draws it, and not during the next run. Go schedules
// the collection of a large heap, since that takes longer than drawing.
func collectWhileDrawn() {
	const most = 64 << 20 // bytes
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.HeapAlloc < most {
		runtime.GC()
	}
}

// ask answers the question with this name. The name "add" adds a file of the worker as a trace.
func (s *simulator) ask(ctx context.Context, name, body string) (any, error) {
	if name == "add" {
		if err := s.session.AddReadable(ctx, body); err != nil {
			return nil, err
		}
		return s.session.Traces(), nil
	}
	var q explore.Question
	if err := json.Unmarshal([]byte(body), &q); err != nil {
		return nil, err
	}
	found, err := s.session.Ask(ctx, name, &q)
	if errors.Is(err, context.Canceled) {
		err = errors.New("a newer run was asked for")
	}
	return found, err
}
