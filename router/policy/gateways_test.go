package policy

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// TestEqualsGateways compares the choices of policies with recorded choices of gateways, request by request. "make
// gateways" records the choices:
//
//	router policy=NAME workers=N words=BOOL settings=JSON
//	arrive ID text=TEXT session=N worker=N
//	finish ID
//	evict
//	uses N
//
// In a text, _ means a space. With words, each word of a text is a token, otherwise each character.
func TestEqualsGateways(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/gateways/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recorded gateways: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var r recordedGateway
			for lines := bufio.NewScanner(file); lines.Scan(); {
				if err := r.do(lines.Text()); err != nil {
					t.Error(err)
				}
			}
			if r.requests < 100 {
				t.Errorf("%d requests, want more", r.requests)
			}
		})
	}
}

// recordedGateway sends the recorded requests of a gateway to a policy.
type recordedGateway struct {
	policy   router.Policy
	tree     *prompt.Tree
	words    bool
	seen     router.Candidates
	at       map[int]int // worker by request
	choice   int         // the gateway's choice for the current request
	requests int
	interval sim.Time // between evictions
}

func (r *recordedGateway) do(line string) error {
	var id, worker, session int
	var text string
	switch {
	case strings.HasPrefix(line, "router "):
		return r.begin(line)
	case line == "evict": // an eviction interval has ended
		r.seen.Now += r.interval
		return nil
	case strings.HasPrefix(line, "uses "): // matches of the tree before the first request
		_, err := fmt.Sscanf(line, "uses %d", &worker)
		for range worker {
			r.policy.Choose(&sim.Request{ID: -1}, &r.seen)
		}
		return err
	case strings.HasPrefix(line, "finish "):
		if _, err := fmt.Sscanf(line, "finish %d", &id); err != nil {
			return err
		}
		r.seen.Running[r.at[id]]--
		return nil
	}
	if _, err := fmt.Sscanf(line, "arrive %d text=%s session=%d worker=%d", &id, &text, &session, &worker); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	var ids []uint64
	for i := range len(text) {
		if !r.words || text[i] != '_' {
			ids = append(ids, uint64(text[i]))
		}
	}
	q := &sim.Request{ID: sim.RequestID(id), InputTokens: len(ids), Prompt: r.tree.Add(ids, len(ids)), Session: int32(session)}
	r.choice = worker
	if ours := int(r.policy.Choose(q, &r.seen).Worker); ours != worker {
		return fmt.Errorf("request %d to worker %d, want %d as the gateway, of loads %v", id, ours, worker, r.seen.Running)
	}
	r.requests++
	r.seen.Running[worker]++
	r.at[id] = worker
	return nil
}

func (r *recordedGateway) begin(line string) error {
	var name, settings string
	var workers int
	if _, err := fmt.Sscanf(line, "router policy=%s workers=%d words=%t settings=%s", &name, &workers, &r.words, &settings); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	s, err := ParseGatewaySettings(Name(name), []byte(settings))
	if err != nil {
		return err
	}
	r.interval = sim.Time(1000 * s.EvictionIntervalSecs)
	r.tree, r.at = prompt.NewTree(1, 1, prompt.Options{}), map[int]int{}
	r.policy, err = New(Name(name), Options{Tree: r.tree, BlockTokens: 1, Gateway: &s, Among: r.among})
	r.seen.Running = make([]int32, workers)
	for w := range workers {
		r.seen.Workers = append(r.seen.Workers, sim.WorkerID(w))
	}
	return err
}

// among returns the gateway's choice if it is in equal.
func (r *recordedGateway) among(equal []sim.WorkerID) sim.WorkerID {
	if slices.Contains(equal, sim.WorkerID(r.choice)) {
		return sim.WorkerID(r.choice)
	}
	return equal[0]
}
