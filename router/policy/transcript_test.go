package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// transcript runs the commands of testdata/*.txt on a dispatcher. Each case has a sentence above it and starts with a
// new router. The output of its commands is below the line. go test -rewrite writes the output to the files.
//
//	router policy=NAME workers=N [role=prefill|decode] [budget=TOKENS] [seed=N] [KEY=VALUE...]
//		makes a router of idle workers 0 to N-1. A block is 10 tokens. Further
//		arguments are keys of the KV policy's configuration, or settings of a gateway's policy.
//	picker scorers=KIND:WEIGHT,... workers=N [draw=NAME] [seed=N] [relative=true] [speculative=MS]
//	[capacity=N] [longest=N] [full=N] [idle=N] [busy=SHARE] [gate=true]
//		makes a router with a Picker and the given settings of its scorers.
//	keep EXPRESSION, sample N, score WEIGHT EXPRESSION, cost WEIGHT EXPRESSION
//		adds a filter or a scorer to the Text of the next command text. A line "policy" must be
//		before them, because the first line of a case has only words.
//	accept EXPRESSION, hold EXPRESSION, shed EXPRESSION
//		adds a rule to the Admission in front of the next command text.
//	text workers=N [picker=NAME] [ties=any] [temperature=T] [above=EXPRESSION] [role=prefill|decode]
//	[seed=N] [budget=TOKENS] [order=NAME] [remember=BLOCKS] [for=MS] [kinds=NAME,...] [speeds=N,...]
//		makes a router with a Text. The expressions of a Text must not have spaces.
//	answer LINE
//		adds an answer of the program of the command process.
//	process workers=N [role=prefill|decode] [seed=N]
//		makes a router with a Process. The output has its input after ">", and its answers after "<".
//	meet ID prompt=1,2,3 [...]
//		makes a request like arrive. The request arrives with the next command together.
//	together
//		routes these requests. A policy that batches decides on them together.
//	classes [weights=N,...] [deadlines=MS,...]
//		sets the classes 0, 1 and so on of the next router; a deadline of 0 means none.
//	classes names=NAME,...
//		names classes with the weights 1, 2 and so on and the deadlines none, 1 s, 2 s and so on.
//	report N running=N waiting=N kv=SHARE
//		reports the metrics of a worker.
//	signals NAME=DELAY/INTERVAL ...
//		sets the ages of signals for the next router, in ms.
//	at MS
//		moves the clock.
//	arrive ID prompt=1,2,3 [tokens=N] [session=N] [output=N] [priority=N] [class=N]
//		routes a request with a prompt of the given blocks, cut to N
//		tokens. Prompts that begin with the same blocks share them.
//	first ID, finish ID
//		reports that a request has its first token, or has left its worker.
//	cache ID
//		caches the full blocks of a request's prompt on its worker.
//	forget N
//		reports that a worker has died: the router forgets its cache and its metrics.
//	add N, remove N
//		adds or removes a worker.
//	loads
//		prints the known facts of the workers.
type transcript struct {
	d         *router.Dispatcher
	tree      *prompt.Tree
	now       sim.Time
	request   map[sim.RequestID]*sim.Request
	worker    map[sim.RequestID]sim.WorkerID
	text      Text
	rules     []AdmissionRule
	admission router.Admission
	classes   []router.ClassTerms
	answers   []string       // later answers of a program
	meeting   []*sim.Request // requests that arrive together
	signals   router.Signals
	out       strings.Builder
}

const transcriptBlock = 10

func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := &transcript{}
			for line := range strings.Lines(d.Cmd + " " + joinArgs(d.CmdArgs) + "\n" + d.Input) {
				if err := s.do(strings.Fields(line)); err != nil {
					fmt.Fprintln(&s.out, "error:", err)
				}
			}
			return s.out.String()
		})
	})
}

// TestTranscriptsOfAll checks that every policy has a transcript with its name.
func TestTranscriptsOfAll(t *testing.T) {
	for _, p := range All() {
		if _, err := os.Stat(filepath.Join("testdata", string(p.Name)+".txt")); err != nil {
			t.Error(err)
		}
	}
}

func joinArgs(args []datadriven.CmdArg) string {
	var all []string
	for _, a := range args {
		text := a.Key
		if len(a.Vals) > 0 {
			text += "=" + strings.Join(a.Vals, ",")
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func (s *transcript) do(words []string) error {
	if len(words) == 0 {
		return nil
	}
	args := map[string]string{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		args[key] = value
	}
	var n int
	if len(words) > 1 {
		n, _ = strconv.Atoi(words[1])
	}
	id := sim.RequestID(n)
	switch words[0] {
	case "router":
		return s.newRouter(args)
	case "picker":
		return s.newPicker(args)
	case "policy":
	case "accept", "hold", "shed":
		d := map[string]router.Decision{"accept": router.Accept, "hold": router.Wait, "shed": router.Shed}[words[0]]
		s.rules = append(s.rules, AdmissionRule{d, strings.Join(words[1:], " ")})
	case "keep", "sample", "score", "cost":
		return s.addToText(words)
	case "text":
		return s.newText(args)
	case "answer":
		s.answers = append(s.answers, strings.Join(words[1:], " "))
	case "process":
		return s.newProcess(args)
	case "meet":
		q, err := s.makeRequest(id, args)
		s.meeting = append(s.meeting, q)
		return err
	case "together":
		return s.routeTogether()
	case "classes":
		return s.setClasses(args)
	case "report":
		return s.report(sim.WorkerID(n), args)
	case "at":
		s.now = sim.Time(n)
	case "arrive":
		return s.arrive(id, args)
	case "first":
		return s.print(s.d.PrefillDone(s.now, id, nil))
	case "finish":
		return s.print(s.d.Finished(s.now, id, nil))
	case "cache":
		q := s.request[id]
		p := &scheduler.Pass{Start: s.now}
		for _, node := range s.tree.Full(&q.Prompt) {
			p.KV = append(p.KV, scheduler.KVChange{Node: node, Blocks: 1})
		}
		return s.d.Observe(s.worker[id], p)
	case "signals":
		return s.ageSignals(args)
	case "forget":
		s.d.Forget(sim.WorkerID(n))
	case "add", "remove":
		change := s.d.AddWorker
		if words[0] == "remove" {
			change = s.d.RemoveWorker
		}
		if err := change(sim.WorkerID(n)); err != nil {
			return err
		}
		return s.print(s.d.Drain(s.now, nil))
	case "loads":
		c := s.d.Loads()
		for _, w := range c.Workers {
			fmt.Fprintf(&s.out, "worker %d: %d running, %d tokens, %d blocks\n", w, c.Running[w], c.Tokens[w], c.Blocks[w])
		}
	default:
		return fmt.Errorf("no command %q", words[0])
	}
	return nil
}

func (s *transcript) newRouter(args map[string]string) (err error) {
	var keys []string
	for key, value := range args {
		switch key {
		case "policy", "workers", "role", "budget", "seed":
		default:
			keys = append(keys, fmt.Sprintf("%q:%s", key, value))
		}
	}
	o := Options{Tree: prompt.NewTree(transcriptBlock, transcriptBlock, prompt.Options{}), BlockTokens: transcriptBlock}
	name, text := Name(args["policy"]), []byte("{"+strings.Join(keys, ",")+"}")
	if name.Info().Gateway {
		settings, err := ParseGatewaySettings(name, text)
		if err != nil {
			return err
		}
		o.Gateway = &settings
	} else if o.Config, err = router.ParseConfig(text); err != nil {
		return err
	}
	role := map[string]scheduler.Role{"prefill": scheduler.Prefill, "decode": scheduler.Decode}[args["role"]]
	workers, _ := strconv.Atoi(args["workers"])
	budget, _ := strconv.Atoi(args["budget"])
	seed, _ := strconv.Atoi(args["seed"])
	o.Role, o.MaxBatchedTokens, o.Seed = role, budget, uint64(seed)
	p, err := New(name, o)
	if err != nil {
		return err
	}
	s.begin(workers, o.Tree, p)
	return nil
}

func (s *transcript) begin(workers int, tree *prompt.Tree, p router.Policy) {
	s.tree = tree
	s.d = router.New(router.Options{Policy: p, Admission: s.admission, Workers: workers, Tree: s.tree, Classes: s.classes, Signals: s.signals})
	s.request, s.worker = map[sim.RequestID]*sim.Request{}, map[sim.RequestID]sim.WorkerID{}
}

func (s *transcript) arrive(id sim.RequestID, args map[string]string) error {
	q, err := s.makeRequest(id, args)
	if err != nil {
		return err
	}
	held := s.d.Queued()
	err = s.print(s.d.Route(s.now, q, nil))
	if s.d.Queued() > held {
		fmt.Fprintf(&s.out, "request %d is held, in order %v\n", id, s.d.Waiting(nil))
	}
	return err
}

// makeRequest makes the request of a command.
func (s *transcript) makeRequest(id sim.RequestID, args map[string]string) (*sim.Request, error) {
	var blocks []uint64
	for text := range strings.SplitSeq(args["prompt"], ",") {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, n)
	}
	tokens := transcriptBlock * len(blocks)
	if n, err := strconv.Atoi(args["tokens"]); err == nil {
		tokens = n
	}
	session, _ := strconv.Atoi(args["session"])
	output, _ := strconv.Atoi(args["output"])
	priority, _ := strconv.Atoi(args["priority"])
	class, _ := strconv.Atoi(args["class"])
	s.request[id] = &sim.Request{
		ID: id, InputTokens: tokens, OutputTokens: output, Prompt: s.tree.Add(blocks, tokens), Session: int32(session), Priority: int32(priority), Class: int32(class), Arrived: s.now,
	}
	return s.request[id], nil
}

func (s *transcript) print(placed []router.Placement, err error) error {
	for _, p := range placed {
		if p.Worker == router.None {
			fmt.Fprintf(&s.out, "request %d is shed\n", p.Request.ID)
			continue
		}
		s.worker[p.Request.ID] = p.Worker
		fmt.Fprintf(&s.out, "request %d to worker %d", p.Request.ID, p.Worker)
		if p.Blocks > 0 {
			fmt.Fprintf(&s.out, ", %d of %d blocks cached, cost %v", p.Overlap, p.Blocks, p.Cost)
		}
		if p.Second != router.None {
			fmt.Fprintf(&s.out, ", worker %d at %v", p.Second, p.SecondCost)
		}
		fmt.Fprintln(&s.out)
	}
	return err
}
