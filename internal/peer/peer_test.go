package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startShell starts a shell script.
func startShell(t *testing.T, ctx context.Context, script string, timeout time.Duration) *Peer {
	t.Helper()
	p, err := Start(ctx, Options{Name: "policy process", Command: script, Timeout: timeout, Stderr: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Ask returns short and long answers until the program ends.
func TestAsk(t *testing.T) {
	p := startShell(t, context.Background(), `while read line; do echo "<$line> "; done`, 5*time.Second)
	for _, text := range []string{"a", "", "0123456789", strings.Repeat("x", 200_000)} {
		answer, err := p.Ask([]byte(text + "\n"))
		if want := "<" + text + ">"; err != nil || string(answer) != want {
			t.Fatalf("asked %.20q: got %.20q, %v", text, answer, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// Errors name the program and the line.
func TestErrors(t *testing.T) {
	for _, tc := range []struct{ script, want string }{
		{`exit 3`, "exit status 3, must be an answer to line 1"},
		{`:`, "the program ended, must be an answer to line 1"},
		{`no-such-program`, "exit status 127 (is there such a program?), must be an answer to line 1"},
		{`read x; echo 1; exit 4`, "exit status 4, must be an answer to line 2"},
		{`read x; echo 1; sleep 60`, "no answer to line 2 within 600ms"},
		{`read x; printf "1\n2\n"; read x; echo 3; read x`, "two lines in answer to one, line 1: must be one; print other text on standard error"},
		{`while read x; do echo 1; done; echo 2`, "two lines in answer to one, line 3: must be one; print other text on standard error"},
		{`while read x; do echo 1; done; exit 5`, "exit status 5 after its last answer, must end with its input"},
		{`while read x; do echo 1; done; sleep 60`, "it runs for 600ms after the end of its input, must end there"},
		{`read x; echo 1; exec >&-; sleep 60`, "no answer to line 2 within 600ms"},
		{`exec <&-; sleep 60`, "no answer to line 1 within 600ms"},
		{`read x; head -c 4500000 /dev/zero; sleep 60`, "an answer of more than 4194304 bytes"},
	} {
		p := startShell(t, context.Background(), tc.script, 600*time.Millisecond)
		started := time.Now()
		err := askThrice(p)
		if err == nil {
			err = p.Close()
		} else {
			p.Kill()
		}
		if want := "policy process " + tc.script + ": " + tc.want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if took := time.Since(started); took > 20*time.Second {
			t.Errorf("%s: took %v", tc.script, took)
		}
	}
}

func askThrice(p *Peer) error {
	for range 3 {
		if _, err := p.Ask([]byte("line\n")); err != nil {
			return err
		}
	}
	return nil
}

// A program that does not read or does not answer is stopped when the context ends.
func TestContextEndsQuestions(t *testing.T) {
	for _, script := range []string{`sleep 60`, `read x; sleep 60`, `while read x; do sleep 60; done`} {
		ctx, cancel := context.WithCancel(context.Background())
		p := startShell(t, ctx, script, time.Minute)
		time.AfterFunc(100*time.Millisecond, cancel)
		started := time.Now()
		_, err := p.Ask([]byte(strings.Repeat("x", 1_000_000) + "\n"))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", script, err)
		}
		if _, err := p.Ask([]byte("x\n")); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: asked again: got %v", script, err)
		}
		p.Kill()
		if took := time.Since(started); took > 20*time.Second {
			t.Errorf("%s: took %v", script, took)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := startShell(t, ctx, `sleep 60`, time.Minute)
	time.AfterFunc(100*time.Millisecond, cancel)
	started := time.Now()
	_ = p.Close()
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("the end of a program took %v", took)
	}
}

// Kill also ends the processes that the shell has started.
func TestKillEndsTheGroup(t *testing.T) {
	p := startShell(t, context.Background(), `sleep 61 | cat; echo no`, 5*time.Second)
	p.Kill()
	if _, err := p.Ask([]byte("x\n")); err == nil {
		t.Error("a program that was killed has answered")
	}
}

// A server is used like a program.
func TestServers(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = filepath.Join(t.TempDir(), "socket")
		}
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				fmt.Fprintf(conn, "<%s>\n", lines.Text())
			}
			conn.Close()
		}()
		p := startShell(t, context.Background(), network+":"+l.Addr().String(), 5*time.Second)
		for _, text := range []string{"a", "b"} {
			if answer, err := p.Ask([]byte(text + "\n")); err != nil || string(answer) != "<"+text+">" {
				t.Fatalf("%s: got %q, %v", network, answer, err)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		l.Close()
		if p, err := Start(context.Background(), p.Options); err == nil {
			t.Errorf("%s: nobody listens, and %v answers", network, p)
		}
	}
}

// BenchmarkAsk sends a line about eight workers to a program that answers immediately. BenchmarkAsk measures Ask, and
// direct reads and writes of the pipes as the lower bound.
func BenchmarkAsk(b *testing.B) {
	line := []byte("[[0,1,2,3,4,5,6,7],80,[3,0,0,1,2,3,4,5],[0.1,0.2,0.3,0.4,0.11,0.22,0.33,0.44],[0,0,0,0,1,1,1,1]]\n")
	buffer := make([]byte, 4096)
	for name, ask := range map[string]func(*Peer) error{
		"peer": func(p *Peer) error { _, err := p.Ask(line); return err },
		"pipe": func(p *Peer) error {
			if _, err := p.in.Write(line); err != nil {
				return err
			}
			_, err := p.out.Read(buffer)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			p, err := Start(context.Background(), Options{Name: "program", Command: "cat", Timeout: time.Minute})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Kill()
			b.ReportAllocs()
			for b.Loop() {
				if err := ask(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
