package policy

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/prompt"
)

// Ask is the program of a transcript. Ask shows only the first fact of a greeting.
func (s *transcript) Ask(line []byte) ([]byte, error) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if begin, facts, ok := bytes.Cut(line, []byte(`,"facts":[`)); ok {
		first, _, _ := bytes.Cut(facts, []byte(","))
		line = fmt.Appendf(nil, `%s,"facts":[%s,...]}`, begin, first)
	}
	fmt.Fprintf(&s.out, "> %s\n", line)
	if len(s.answers) == 0 {
		return nil, errors.New("the program has no answer")
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	fmt.Fprintf(&s.out, "< %s\n", answer)
	return []byte(answer), nil
}

// Refuse returns the error of an invalid answer.
func (s *transcript) Refuse(answer []byte, want string) error {
	return fmt.Errorf("the answer is %q, must be %s", answer, want)
}

// newProcess is the command of a transcript that makes a router with a Process.
func (s *transcript) newProcess(args map[string]string) error {
	seed, _ := strconv.Atoi(args["seed"])
	workers, err := strconv.Atoi(args["workers"])
	if err != nil {
		return err
	}
	tree := prompt.NewTree(transcriptBlock, transcriptBlock, prompt.Options{})
	o := Options{
		Role:        map[string]scheduler.Role{"prefill": scheduler.Prefill, "decode": scheduler.Decode}[args["role"]],
		BlockTokens: transcriptBlock, MaxBatchedTokens: 2048, Seed: uint64(seed), Tree: tree, CacheBlocks: 100,
	}
	for range workers {
		o.Workers = append(o.Workers, Worker{Speed: 1})
	}
	p, err := NewProcess(s, o)
	if err != nil {
		return err
	}
	if own, ok := p.(*holdingProcess); ok {
		s.admission = own
	}
	s.begin(workers, tree, p)
	return nil
}

// routeTogether is the command of a transcript that routes the requests of meet together.
func (s *transcript) routeTogether() error {
	all := s.meeting
	s.meeting = nil
	if s.d.Batches() {
		if err := s.d.Expect(s.now, all); err != nil {
			return err
		}
	}
	for _, q := range all {
		if err := s.print(s.d.Route(s.now, q, nil)); err != nil {
			return err
		}
	}
	if s.d.Batches() {
		return s.d.Expect(s.now, nil)
	}
	return nil
}
