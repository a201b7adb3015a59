package autoscale

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// asked is a program with given answers.
type asked struct {
	answers []string
	out     *strings.Builder
}

func (a *asked) Ask(line []byte) ([]byte, error) {
	if len(a.answers) == 0 {
		return nil, errors.New("the program ended")
	}
	answer := a.answers[0]
	a.answers = a.answers[1:]
	fmt.Fprintf(a.out, "> %s< %s\n", line, answer)
	return []byte(answer), nil
}

func (a *asked) Refuse(answer []byte, want string) error {
	return fmt.Errorf("the answer is %q, must be %s", answer, want)
}

// TestProcessTranscripts shows the messages to a program and its answers.
//
//	greet workers=N          the answer to the greeting
//	tick SIGNALS the answer to a tick, with signals as in TestTranscripts
//	refuse                   answers to a tick, each of a separate program
func TestProcessTranscripts(t *testing.T) {
	var x rig
	datadriven.RunTest(t, "testdata/process.txt", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		switch d.Cmd {
		case "greet":
			x = rig{every: 15_000}
			d.ScanArgs(t, "workers", &x.s.Workers)
			x.greet(&asked{[]string{d.Input}, &b})
		case "tick":
			var words []string
			for _, a := range d.CmdArgs {
				words = append(words, strings.NewReplacer("(", "", ")", "", ", ", ",").Replace(a.String()))
			}
			x.ask(t, strings.Join(words, " "), d.Input, &b)
		case "refuse":
			for _, answer := range strings.Split(d.Input, "\n") {
				x = rig{every: 15_000}
				x.greet(&asked{[]string{`{"version": 1}`}, new(strings.Builder)})
				x.ask(t, "ready=2", answer, new(strings.Builder))
				fmt.Fprintln(&b, x.scaler.(Fallible).Err())
			}
		}
		return b.String()
	})
}

// greet starts a program.
func (x *rig) greet(a *asked) {
	c := Default(ByProgram)
	c.Program.Command, c.Min, c.Max = "program", 0, 16
	var err error
	if x.scaler, err = NewProcess(a, &c, Workers{}, 7); err != nil {
		fmt.Fprintln(a.out, err)
	}
}

// ask sends the signals of the next tick to the program.
func (x *rig) ask(t *testing.T, seen, answer string, out *strings.Builder) {
	p := x.scaler.(*process)
	p.asker = &asked{nil, out}
	if answer != "" {
		p.asker = &asked{[]string{answer}, out}
	}
	x.see(t, seen)
	x.s.Starting = max(x.s.Workers-x.s.Ready-x.s.Missing, 0)
	if x.s.Workers = p.Want(&x.s); p.Err() != nil {
		fmt.Fprintln(out, p.Err())
		return
	}
	fmt.Fprintf(out, "wants %d (%s)\n", x.s.Workers, p.Why())
}

// TestTickIsDocumented checks that docs/autoscaling.md shows an exact line.
func TestTickIsDocumented(t *testing.T) {
	c := Default(ByProgram)
	c.Min, c.Max = 2, 16
	p := &process{c: &c, facts: ruleFacts()}
	s := Signals{Now: 45_000, Workers: 4, Starting: 2, Scrape: Scrape{At: 43_000, Ready: 2, Running: 21, Waiting: 3, Held: 0, KV: 0.75, Rate: 2.75, InputRate: 4125, OutputRate: 310.5,
		Each: []Gauge{{Running: 11, Waiting: 3, KV: 0.5}, {Running: 10, KV: 0.25}}}}
	line := string(p.appendTick(nil, &s))
	text, err := os.ReadFile("../../docs/autoscaling.md")
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(text)), ""), line) {
		t.Errorf("%v: no line %s", err, line)
	}
}
