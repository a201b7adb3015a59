// Package link is how the processes of a cluster connect to each other: where they listen, which peers they
// accept, and which addresses they dial.
//
// They listen on loopback by default, without authentication. A listener on another address requires
// certificates that an authority has signed, on both sides, or proof of a shared token, or both, unless
// Insecure is set. The dialling side meets the requirements of the listener wherever the address is not
// loopback.
//
// Read link.go, listen.go, dial.go, then token.go and allow.go.
package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Config configures connections. The zero value is loopback without credentials.
type Config struct {
	// Cert, Key and CA are PEM files: all of them or none. Peers need a certificate that CA has signed, for
	// servers and for clients.
	Cert, Key, CA string
	// Name is what certificates of listeners are for; "": the host that is dialled.
	Name string
	// Token is the shared secret of both sides; "": none. It is proven and never sent, and encrypts nothing.
	Token string
	// Insecure accepts every peer at a listener that is not on loopback.
	Insecure bool
	// Dial lists the addresses that may be dialled: networks, addresses, names of hosts, and the words
	// loopback, private, local (this machine's own addresses) and any. Default: loopback, private and local.
	Dial []string
}

// FromEnv returns the configuration that the environment describes.
func FromEnv(getenv func(string) string) Config {
	return Config{
		Cert: getenv("REPLAY_LINK_CERT"), Key: getenv("REPLAY_LINK_KEY"), CA: getenv("REPLAY_LINK_CA"), Name: getenv("REPLAY_LINK_NAME"),
		Token: getenv("REPLAY_LINK_TOKEN"), Insecure: getenv("REPLAY_LINK_INSECURE") == "1", Dial: SplitList(getenv("REPLAY_ALLOW_DIAL")),
	}
}

// SplitList splits at commas and spaces and leaves nothing empty.
func SplitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// leastToken is the least length of a token: every peer that connects gets a proof with which it can test
// guesses.
const leastToken = 16

// handshakeTime bounds the time before the first byte of a protocol.
const handshakeTime = 5 * time.Second

// Links connects the processes of a cluster. Any goroutine may use it.
type Links struct {
	server, client *tls.Config // nil without certificates
	token          string
	insecure       bool
	allowed        *allowed
	watch          atomic.Pointer[Watch]
}

// Watch receives the connections that are refused.
type Watch struct {
	Count func(listener, reason string) // nil: none
	Warn  func(text string)             // nil: none
}

// New checks a configuration and reads its files.
func New(c Config) (*Links, error) {
	a, err := parseAllowed(c.Dial)
	if err != nil {
		return nil, err
	}
	if c.Token != "" && len(c.Token) < leastToken {
		return nil, fmt.Errorf("the token of links has %d characters: must be at least %d", len(c.Token), leastToken)
	}
	l := &Links{token: c.Token, insecure: c.Insecure, allowed: a}
	if c.Cert == "" && c.Key == "" && c.CA == "" {
		if c.Name != "" {
			return nil, excerpt.Errorf("name %q of certificates of links requires a certificate, its key and an authority", c.Name)
		}
		return l, nil
	}
	return l, l.readCertificates(c)
}

// Open returns l, or links by the zero Config if l is nil.
func Open(l *Links) *Links {
	if l != nil {
		return l
	}
	a, _ := parseAllowed(nil) // the defaults are well-formed
	return &Links{allowed: a}
}

func (l *Links) readCertificates(c Config) error {
	if c.Cert == "" || c.Key == "" || c.CA == "" {
		return errors.New("a certificate of links, its key and the authority of the peers require each other")
	}
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s: no certificate, expected some in PEM", c.CA)
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", c.Cert, c.Key, err)
	}
	both := []tls.Certificate{pair}
	l.server = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: both, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	l.client = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: both, RootCAs: pool, ServerName: c.Name}
	return nil
}

// ReadServer returns the configuration of a server of HTTPS that asks for no certificates.
func ReadServer(cert, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", cert, key, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}, nil
}

// SetWatch makes w hear of connections that are refused from now on.
func (l *Links) SetWatch(w Watch) { l.watch.Store(&w) }

// noteRefusal counts a connection that was refused, and warns of it.
func (l *Links) noteRefusal(listener string, from net.Addr, reason string, err error) {
	w := l.watch.Load()
	if w == nil {
		return
	}
	if w.Count != nil {
		w.Count(listener, reason)
	}
	if w.Warn != nil {
		w.Warn(fmt.Sprintf("%s: refused a connection from %v: %v", listener, from, err))
	}
}

// wantsProof reports whether listeners that are not on loopback ask for something.
func (l *Links) wantsProof() bool { return l.server != nil || l.token != "" }
