package link_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/certtest"
	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/link"
)

const token = "a token of the cluster's own"

// elsewhere returns an address of this machine outside loopback.
func elsewhere(t *testing.T) string {
	t.Helper()
	host := listen.RoutableAddress()
	if host == "127.0.0.1" {
		t.Skip("this machine has loopback alone")
	}
	return host
}

// counted is the number of refusals by listener and reason.
type counted struct {
	mu    sync.Mutex
	n     map[string]int
	lines []string
}

func (c *counted) watch() link.Watch {
	c.n = make(map[string]int)
	return link.Watch{
		Count: func(listener, reason string) { c.mu.Lock(); defer c.mu.Unlock(); c.n[listener+"/"+reason]++ },
		Warn:  func(text string) { c.mu.Lock(); defer c.mu.Unlock(); c.lines = append(c.lines, text) },
	}
}

func (c *counted) await(t *testing.T, what string) {
	t.Helper()
	var line string
	poll.Until(t, what+" is counted once", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		line = strings.Join(c.lines, "\n")
		return c.n[what] == 1
	})
	if strings.Count(line, "\n") > 0 || strings.Contains(line, token) {
		t.Errorf("told %q, want one line", line)
	}
}

func newLinks(t *testing.T, c link.Config) *link.Links {
	t.Helper()
	l, err := link.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// echo starts a server of l that returns the received bytes.
func echo(t *testing.T, l *link.Links, host string) string {
	t.Helper()
	s, err := l.Listen("echo", net.JoinHostPort(host, "0"), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.Serve(func(c net.Conn) { _, _ = io.Copy(c, c) })
	return s.Addr().String()
}

func say(t *testing.T, l *link.Links, address string) (string, error) {
	t.Helper()
	ctx, release := context.WithTimeout(t.Context(), time.Minute)
	defer release()
	c, err := l.Dial(ctx, address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "hello, there"); err != nil {
		return "", err
	}
	b := make([]byte, 12)
	n, err := io.ReadFull(c, b)
	return string(b[:n]), err
}

// The listener refuses a peer without the required credentials with one line that has the reason, and counts it. On
// loopback no credentials are required.
func TestProof(t *testing.T) {
	host := elsewhere(t)
	ca, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
	cert, key := ca.Issue(t, "member", net.ParseIP(host))
	named, namedKey := ca.Issue(t, "cluster.internal")
	strange, strangeKey := other.Issue(t, "member", net.ParseIP(host))
	mutual := link.Config{Cert: cert, Key: key, CA: ca.File}
	both := mutual
	both.Token = token
	for name, test := range map[string]struct {
		server, client link.Config
		refused        string // the counter of the refusal; "": not refused
		told           string // part of the client's error; "": any
	}{
		"token":                         {link.Config{Token: token}, link.Config{Token: token}, "", ""},
		"no token":                      {link.Config{Token: token}, link.Config{}, "no_token", "requires a token: set $REPLAY_LINK_TOKEN"},
		"another token":                 {link.Config{Token: token}, link.Config{Token: "another token of theirs"}, "wrong_token", "another token"},
		"certificates":                  {mutual, mutual, "", ""},
		"certificates and token":        {both, both, "", ""},
		"certificates and no token":     {both, mutual, "no_token", "requires a token"},
		"certificates for a name":       {link.Config{Cert: named, Key: namedKey, CA: ca.File}, link.Config{Cert: cert, Key: key, CA: ca.File, Name: "cluster.internal"}, "", ""},
		"certificates for another":      {link.Config{Cert: named, Key: namedKey, CA: ca.File}, mutual, "no_certificate", "certificate"},
		"no certificates":               {mutual, link.Config{}, "no_certificate", "requires TLS with a certificate"},
		"a token for certificates":      {mutual, link.Config{Token: token}, "no_certificate", "requires TLS with a certificate"},
		"certificates of a stranger":    {mutual, link.Config{Cert: strange, Key: strangeKey, CA: ca.File}, "no_certificate", "certificate"},
		"a listener that is a stranger": {link.Config{Cert: strange, Key: strangeKey, CA: ca.File}, mutual, "no_certificate", "unknown authority"},
		"insecure":                      {link.Config{Insecure: true}, link.Config{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := newLinks(t, test.server), newLinks(t, test.client)
			var c counted
			server.SetWatch(c.watch())
			got, err := say(t, client, echo(t, server, host))
			if (err == nil) != (test.refused == "") || err == nil && got != "hello, there" {
				t.Fatalf("%q, %v", got, err)
			}
			if err != nil && (!strings.Contains(err.Error(), test.told) || strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%v: want %q", err, test.told)
			}
			if test.refused != "" {
				c.await(t, "echo/"+test.refused)
			}
			if got, err := say(t, newLinks(t, link.Config{}), echo(t, server, "127.0.0.1")); err != nil || got != "hello, there" {
				t.Errorf("on loopback: %q, %v", got, err)
			}
		})
	}
}

// A peer with another protocol can read the reason of the refusal.
func TestRefusalIsALine(t *testing.T) {
	host := elsewhere(t)
	ca := certtest.NewAuthority(t)
	cert, key := ca.Issue(t, "member", net.ParseIP(host))
	for _, config := range []link.Config{{Token: token}, {Cert: cert, Key: key, CA: ca.File}} {
		c, err := net.Dial("tcp", echo(t, newLinks(t, config), host))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(c)
		if line := string(b); err != nil || !strings.HasPrefix(line, "replay: refused: this listener requires ") || strings.Count(line, "\n") != 1 {
			t.Errorf("%q, %v", line, err)
		}
	}
}

// Without credentials, a server outside loopback requires --insecure.
func TestListenElsewhere(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		_, err := newLinks(t, link.Config{}).Listen("streams", address, 0)
		_, _, errHTTP := newLinks(t, link.Config{}).HTTP("streams", address)
		for _, err := range []error{err, errHTTP} {
			if err == nil || !strings.Contains(err.Error(), "streams at ") || !strings.Contains(err.Error(), "--insecure") {
				t.Errorf("%s: %v, want a refusal", address, err)
			}
		}
		s, err := newLinks(t, link.Config{Insecure: true}).Listen("streams", address, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Serve(func(net.Conn) {})
		s.Close()
	}
	for _, host := range []string{"127.0.0.1", "127.1.2.3", "localhost"} {
		if err := newLinks(t, link.Config{}).Check("streams", host); err != nil {
			t.Error(err)
		}
	}
}

// HTTP requires the token except on open paths.
func TestHTTP(t *testing.T) {
	host := elsewhere(t)
	l := newLinks(t, link.Config{Token: token})
	var c counted
	l.SetWatch(c.watch())
	at, ask, err := l.HTTP("system", net.JoinHostPort(host, "0"), "/live")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: ask(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") }))}
	t.Cleanup(func() { _ = s.Close() })
	go func() { _ = s.Serve(at) }()
	for _, test := range []struct {
		path, header string
		code         int
	}{{"/live", "", 200}, {"/metrics", "Bearer " + token, 200}, {"/metrics", "", 401}} {
		r, _ := http.NewRequest(http.MethodGet, "http://"+at.Addr().String()+test.path, nil)
		if test.header != "" {
			r.Header.Set("Authorization", test.header)
		}
		got, err := http.DefaultClient.Do(r)
		if err != nil || got.StatusCode != test.code {
			t.Fatalf("%+v: %v, %v", test, got, err)
		}
		got.Body.Close()
	}
	c.await(t, "system/no_token")
}

// With certificates the server uses HTTPS and requires client certificates.
func TestHTTPS(t *testing.T) {
	host := elsewhere(t)
	ca := certtest.NewAuthority(t)
	cert, key := ca.Issue(t, "member", net.ParseIP(host))
	l := newLinks(t, link.Config{Cert: cert, Key: key, CA: ca.File})
	var c counted
	l.SetWatch(c.watch())
	at, ask, err := l.HTTP("system", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: ask(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") })), ErrorLog: log.New(l.ErrorLog("system"), "", 0)}
	t.Cleanup(func() { _ = s.Close() })
	go func() { _ = s.Serve(at) }()
	mine, err := l.Dial(t.Context(), at.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	if _, err := io.WriteString(mine, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(mine); err != nil || !strings.HasSuffix(string(b), "in") {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := tls.Dial("tcp", at.Addr().String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS13}); err != nil {
		t.Fatal(err) // in TLS 1.3 the listener checks the client certificate after this
	}
	c.await(t, "system/no_certificate")
}

// Addresses are allowed or rejected as listed. For a name, the resolved address is checked at the dial.
func TestAllowed(t *testing.T) {
	own := listen.RoutableAddress()
	for _, test := range []struct {
		list    string
		yes, no []string
	}{
		{"", []string{"127.0.0.1", "::1", "10.1.2.3", "192.168.7.7", "172.16.0.1", "100.64.3.3", "fd00::1", "::ffff:10.0.0.1", own}, []string{"8.8.8.8", "169.254.169.254", "fe80::1", "2001:db8::1", "172.32.0.1", "::ffff:8.8.8.8"}},
		{"loopback", []string{"127.0.0.1"}, []string{"10.1.2.3"}},
		{"10.2.0.0/16,8.8.8.8", []string{"10.2.9.9", "8.8.8.8"}, []string{"127.0.0.1", "10.3.0.1", "8.8.4.4"}},
		{"any", []string{"8.8.8.8", "169.254.169.254"}, nil},
		{"2001:db8::/32", []string{"2001:db8::7"}, []string{"2001:db9::7"}},
	} {
		l := newLinks(t, link.Config{Dial: link.SplitList(test.list)})
		for want, hosts := range map[bool][]string{true: test.yes, false: test.no} {
			for _, host := range hosts {
				err := l.CheckDial(net.JoinHostPort(host, "80"))
				var forbidden *link.NotAllowedError
				if (err == nil) != want || err != nil && !errors.As(err, &forbidden) {
					t.Errorf("%q: %s: %v", test.list, host, err)
				}
			}
		}
	}
	for _, list := range []string{"10.0.0.0/33", "256.1.1.1", "http://host", "*.internal"} {
		if _, err := link.New(link.Config{Dial: []string{list}}); err == nil || !strings.Contains(err.Error(), strconv.Quote(list)) {
			t.Errorf("%s: %v, want a refusal", list, err)
		}
	}
	l := newLinks(t, link.Config{Dial: []string{"10.9.9.9"}})
	_, port, _ := strings.Cut(netip.MustParseAddrPort(echo(t, newLinks(t, link.Config{}), "127.0.0.1")).String(), ":")
	var forbidden *link.NotAllowedError
	if _, err := say(t, l, "localhost:"+port); !errors.As(err, &forbidden) {
		t.Errorf("a name of an address that is not allowed: %v", err)
	}
	if got, err := say(t, newLinks(t, link.Config{Dial: []string{"LocalHost"}}), "localhost:"+port); err != nil || got != "hello, there" {
		t.Errorf("a name that is allowed: %q, %v", got, err)
	}
}

// Invalid combinations of settings are rejected.
func TestConfig(t *testing.T) {
	for _, c := range []link.Config{{Cert: "a"}, {Cert: "a", Key: "b"}, {Name: "x"}, {Token: "short"}, {Cert: "none", Key: "none", CA: "none"}} {
		if l, err := link.New(c); err == nil {
			t.Errorf("%+v: %v, want an error", c, l)
		}
	}
}
