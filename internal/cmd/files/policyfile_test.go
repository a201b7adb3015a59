package files

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/router/policy"
)

// Errors in a policy have the line, the value and the requirement.
func TestPolicyFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "p.yaml: 0 documents, expected one router policy"},
		{"a: 1\n---\nb: 2", "p.yaml: 2 documents, expected one router policy"},
		{"- 1", "p.yaml:1: must be a router policy, with name, filters, scorers, picker, ties, temperature, hold, sent or signals"},
		{"name: x", "p.yaml:1: an empty policy, must have filters, scorers or a picker"},
		{"scorer: []", "p.yaml:1: scorer: no such key of a router policy, must be name, filters, scorers, picker, ties, temperature, hold, sent or signals, did you mean scorers?"},
		{"scorers: 3", "p.yaml:1: scorers: must be a list of scorers, as - score: -requests"},
		{"scorers:\n- 3", "p.yaml:2: must be a scorer, with name, weight, score or cost"},
		{"scorers:\n- weight: 2", "p.yaml:2: must be a scorer with either score, the higher the better, or cost, the lower the better"},
		{"scorers:\n- score: requests\n  cost: requests", "p.yaml:2: must be a scorer with either score"},
		{"scorers:\n- weight: x\n  score: requests", "p.yaml:2: weight: x: must be a number from -1e+09 to 1e+09"},
		{"scorers:\n- weight: NaN\n  score: requests", "p.yaml:2: weight: NaN: must be a number"},
		{"scorers:\n- score: request", "p.yaml:2: request is unknown, did you mean requests?"},
		{"scorers:\n- score: |\n    requests +\n      waitng", "p.yaml:4: waitng is unknown, did you mean waiting?"},
		{"scorers:\n- score: >\n    waitng", "p.yaml:3: waitng is unknown, did you mean waiting?"},
		{"scorers:\n- score: output_tokens", "p.yaml:2: output_tokens is unknown, did you mean oracle.output_tokens?"},
		{"scorers:\n- score: requests > 2", "p.yaml:2: the expression is true or false, must be a number"},
		{"scorers:\n- score: [1]", "p.yaml:2: score: must be a single value"},
		{"filters:\n- keep: requests", "p.yaml:2: the expression is a number, must be true or false"},
		{"filters:\n- keep: true\n  sample: 2", "p.yaml:2: a filter with keep and sample, must be two filters"},
		{"filters:\n- sample: 0", "p.yaml:2: sample: 0: must be a whole number from 1 on"},
		{"picker: max", "p.yaml:1: picker: max: must be max-score, weighted-random, random or round-robin"},
		{"picker: random\nscorers:\n- score: requests", "p.yaml:1: scorers with the picker random, which ignores scores"},
		{"picker: weighted-random", "p.yaml:1: no scorers with the picker weighted-random"},
		{"picker: random\nties: any", "p.yaml:1: ties, require the picker max-score without a temperature"},
		{"picker: random\ntemperature: 1", "p.yaml:1: a temperature, requires the picker max-score and scorers"},
		{"scorers:\n- score: requests\ntemperature: -1", "p.yaml:3: temperature: -1: must be a number from 0 to 1e+09"},
		{"picker: random\nhold: {order: fcfs}", "p.yaml:2: hold: must be above"},
		{"picker: random\nhold: {above: requests}", "p.yaml:2: requests is unknown"},
		{"picker: random\nhold: {above: -pass_tokens}", "p.yaml:2: above: -pass_tokens is -8192 for passes of 8192 tokens, must be at least 0"},
		{"picker: random\nhold: {above: 1, order: fifo}", "p.yaml:2: order: fifo: must be fcfs, lcfs, wspt, priority, wfq or edf"},
		{"picker: random\nsent: {for: 2s}", "p.yaml:1: sent, and no expression reads sent_blocks"},
		{"picker: random\nsent: {for: soon}", "p.yaml:2: for: soon: must be ms, or a time such as 90s or 10m"},
		{"picker: random\nsignals: {waiting: {delay: 1s}}", "p.yaml:1: signals: waiting, and the router reads no signal"},
		{"scorers:\n- cost: waiting\nsignals: {index: {delay: 1s}}", "p.yaml:1: signals: index, and the router reads only waiting"},
		{"scorers:\n- cost: waiting\nsignals: {waiting: {delay: 25h}}", "p.yaml:1: signals: waiting 9e+07 ms old, read every 50 ms, must be a delay of 0 to 24h"},
		{"scorers:\n- cost: waiting\nsignals: {waiting: {interval: soon}}", "p.yaml:3: interval: soon: must be ms, or a time such as 90s or 10m"},
		{"scorers:\n- cost: waiting\nsignals: {wating: 1}", "p.yaml:3: wating: no such key of signals, must be running, waiting, kv_usage, index or loads, did you mean waiting?"},
		{"scorers:\n- cost: waiting\nsignals: {waiting: 1s}", "p.yaml:3: must be a signal, with delay or interval"},
		{"picker: random\npicker: random", "p.yaml:2: mapping key \"picker\" already defined at [1:1]"},
		{"name: ' '\npicker: random", "p.yaml:1: name: must be a name"},
		{"picker: [", "p.yaml:1: "},
		{"scorers:\n- cost: now > 1 ? 2 : 3", "p.yaml:2: mapping value is not allowed in this context; an expression with \": \" in it requires quotes, or | in front"},
	} {
		_, err := ParsePolicy("p.yaml", []byte(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// Errors in an admission have the line, the value and the requirement.
func TestAdmissionFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "a.yaml: 0 documents, expected one admission"},
		{"name: x", "a.yaml:1: an admission without rules accepts all requests, requires rules"},
		{"rule: []", "a.yaml:1: rule: no such key of an admission, must be name, rules or strict, did you mean rules?"},
		{"rules:\n- hold: true\nstrict: soon", "a.yaml:3: strict: soon: must be true or false"},
		{"rules: {shed: true}", "a.yaml:1: rules: must be a list of rules, as - shed: min(requests) > 32"},
		{"rules:\n- reject: true", "a.yaml:2: reject: no such key of a rule, must be accept, hold or shed"},
		{"rules:\n- shed: true\n  hold: true", "a.yaml:2: a rule with shed and hold, must be a rule for each"},
		{"rules:\n- shed: requests > 3", "a.yaml:2: requests > 3 differs between workers, expected one value for all, as any(...), all(...) or with min(...)"},
		{"rules:\n- shed: min(sent_blocks) > 3", "a.yaml:2: sent_blocks is known to router policies alone"},
		{"rules:\n- shed: queued", "a.yaml:2: the expression is a number, must be true or false"},
		{"rules:\n- shed: queud > 1", "a.yaml:2: queud is unknown, did you mean queued?"},
	} {
		_, err := ParseAdmission("a.yaml", []byte(c.text))
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// The name of a policy is the key name, or otherwise the name of the file.
func TestPolicyIsNamed(t *testing.T) {
	for text, want := range map[string]string{"picker: random": "mine", "picker: random\nname: yours": "yours"} {
		p, err := ParsePolicy("dir/mine.yaml", []byte(text))
		if err != nil || p.Name != want {
			t.Errorf("%q: %v, %v, want the name %s", text, p, err, want)
		}
	}
}

// Any bytes are either a valid policy or rejected with an error that names the line.
func FuzzParsePolicy(f *testing.F) {
	for _, name := range PolicyNames() {
		text, err := PolicyText(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("rules: [{hold: min(requests) > 8}, {shed: queued > 16}]"))
	f.Add([]byte("scorers: [{score: 1, weight: 1e400}]\nhold: {above: -1}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := ParseAdmission("p.yaml", text); err != nil && !strings.HasPrefix(err.Error(), "p.yaml:") {
			t.Errorf("%q: %v names no place", text, err)
		}
		p, err := ParsePolicy("p.yaml", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "p.yaml:") {
				t.Errorf("%q: %v names no place", text, err)
			}
			return
		}
		_ = p.String()
		if _, err := policy.NewText(*p, policy.Options{BlockTokens: 16}); err != nil && !strings.Contains(err.Error(), "must be at least 0") {
			t.Errorf("%q: read, and not made: %v", text, err)
		}
	})
}
