// Package link connects the processes of a cluster: it defines where they listen, which peers they accept, and which
// addresses they dial.
//
// Processes listen on loopback by default, without authentication. A listener on another address requires mutual TLS,
// a shared token, or both, unless Insecure is set. A process that dials an address outside loopback authenticates as
// the listener requires.
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

// Config configures connections. The zero value means loopback without credentials.
type Config struct {
	// Cert, Key and CA are PEM files; all or none must be set. Peers need a certificate for servers and clients that
	// CA has signed.
	Cert, Key, CA string
	// Name is the name in the certificates of listeners; "": the dialled host.
	Name string
	// Token is a shared secret; "": none. Peers prove the token and never send the token. Token does not encrypt
	// connections.
	Token string
	// Insecure accepts every peer at listeners outside loopback.
	Insecure bool
	// Dial lists the addresses that may be dialled: networks, addresses, host names, and the words loopback, private,
	// local (this machine's addresses) and any. Default: loopback, private and local.
	Dial []string
}

// FromEnv returns the configuration from environment variables.
func FromEnv(getenv func(string) string) Config {
	return Config{
		Cert: getenv("REPLAY_LINK_CERT"), Key: getenv("REPLAY_LINK_KEY"), CA: getenv("REPLAY_LINK_CA"), Name: getenv("REPLAY_LINK_NAME"),
		Token: getenv("REPLAY_LINK_TOKEN"), Insecure: getenv("REPLAY_LINK_INSECURE") == "1", Dial: SplitList(getenv("REPLAY_ALLOW_DIAL")),
	}
}

// SplitList splits text at commas and spaces, and drops empty parts.
func SplitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// leastToken is the minimum length of a token, because every peer receives a proof with which it can test guesses.
const leastToken = 16

// handshakeTime is the time limit of authentication.
const handshakeTime = 5 * time.Second

// Links connects the processes of a cluster. Links is safe for concurrent use.
type Links struct {
	server, client *tls.Config // nil without certificates
	token          string
	insecure       bool
	allowed        *allowed
	watch          atomic.Pointer[Watch]
}

// Watch receives refused connections.
type Watch struct {
	Count func(listener, reason string) // nil: not counted
	Warn  func(text string)             // nil: not logged
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

// Open returns l, or links with the zero Config if l is nil.
func Open(l *Links) *Links {
	if l != nil {
		return l
	}
	a, _ := parseAllowed(nil) // the defaults are valid
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

// ReadServer returns the TLS configuration of an HTTPS server without client certificates.
func ReadServer(cert, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", cert, key, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}, nil
}

// SetWatch sets the receiver of refused connections.
func (l *Links) SetWatch(w Watch) { l.watch.Store(&w) }

// noteRefusal reports a refused connection to the Watch.
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

// wantsProof reports whether listeners outside loopback require authentication.
func (l *Links) wantsProof() bool { return l.server != nil || l.token != "" }
