package link

import (
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/live/tcp"
)

// Labels for the reasons of refused connections.
const (
	noToken       = "no_token"
	wrongToken    = "wrong_token"
	noCertificate = "no_certificate"
)

// Listen listens at an address. Outside loopback the listener authenticates the connections. what names the listener
// in errors and metrics. The listener closes new connections while most connections are open; 0: no limit.
func (l *Links) Listen(what, address string, most int) (*tcp.Server, error) {
	at, err := listen.Open(what, address, l.missing())
	if err != nil {
		return nil, err
	}
	s := tcp.NewServer(at, most)
	if !s.Addr().IP.IsLoopback() && l.wantsProof() {
		s.Admit = func(c net.Conn) (net.Conn, error) { return l.admitConn(what, c) }
	}
	return s, nil
}

// Check returns an error if a listener may not listen at a host.
func (l *Links) Check(what, host string) error {
	_, err := listen.Check(what, net.JoinHostPort(host, "0"), l.missing())
	return err
}

// missing returns the credentials that a listener outside loopback requires and l does not have.
func (l *Links) missing() string {
	if l.wantsProof() || l.insecure {
		return ""
	}
	return "certificates ($REPLAY_LINK_CERT, $REPLAY_LINK_KEY, $REPLAY_LINK_CA), a token in $REPLAY_LINK_TOKEN, or --insecure"
}

// Proves reports whether a listener at a host authenticates its clients.
func (l *Links) Proves(host string) bool {
	ip := net.ParseIP(host)
	return l.wantsProof() && (ip == nil || !ip.IsLoopback())
}

// Insecure reports whether listeners outside loopback need no credentials.
func (l *Links) Insecure() bool { return l.insecure }

// ForUsers returns the links of a listener for users. With Insecure the returned links have no credentials. Otherwise
// ForUsers returns l.
func (l *Links) ForUsers() *Links {
	if l.insecure {
		return &Links{insecure: true, allowed: l.allowed}
	}
	return l
}

// admitConn authenticates a connection, and returns the connection to use.
func (l *Links) admitConn(what string, raw net.Conn) (net.Conn, error) {
	from := raw.RemoteAddr()
	_ = raw.SetDeadline(time.Now().Add(handshakeTime))
	c := raw
	if l.server != nil {
		secure := tls.Server(raw, l.server)
		if err := secure.Handshake(); err != nil {
			var plain tls.RecordHeaderError
			if errors.As(err, &plain) {
				err = errors.New("this listener requires TLS with a certificate (--link-cert, --link-key, --link-ca)")
				sendRefusal(raw, err)
			}
			l.noteRefusal(what, from, noCertificate, err)
			return nil, err
		}
		c = secure
	}
	if l.token != "" {
		if reason, err := proveListener(c, l.token); err != nil {
			sendRefusal(c, err)
			l.noteRefusal(what, from, reason, err)
			return nil, err
		}
	}
	return c, raw.SetDeadline(time.Time{})
}

// refusalPrefix is the start of a refusal. No protocol of this project starts with this prefix.
const refusalPrefix = "replay: refused: "

// sendRefusal sends the reason of a refusal to the peer.
func sendRefusal(c net.Conn, why error) {
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, refusalPrefix+why.Error()+"\n"); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	// If a connection is closed with unread bytes, the line may be lost.
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20))
}

// HTTP returns a listener for an HTTP server, and a middleware for its handler. Outside loopback the listener
// requires certificates, or the token as Authorization: Bearer. The paths in open need no token.
func (l *Links) HTTP(what, address string, open ...string) (net.Listener, func(http.Handler) http.Handler, error) {
	s, err := listen.Open(what, address, l.missing())
	if err != nil {
		return nil, nil, err
	}
	if s.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return s, func(h http.Handler) http.Handler { return h }, nil
	}
	if l.server != nil {
		secure := l.server.Clone()
		secure.NextProtos = []string{"http/1.1"}
		s = tls.NewListener(s, secure)
	}
	return s, func(h http.Handler) http.Handler { return l.requireToken(what, h, open) }, nil
}

// ErrorLog returns a writer for the error log of an HTTP server. The writer counts connections without a valid
// certificate.
func (l *Links) ErrorLog(what string) io.Writer { return errorLog{l, what} }

type errorLog struct {
	links *Links
	what  string
}

func (e errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if e.links.server != nil && strings.Contains(text, "TLS handshake error") {
		from, why, _ := strings.Cut(strings.TrimPrefix(text, "http: TLS handshake error from "), ": ")
		e.links.noteRefusal(e.what, textAddr(from), noCertificate, errors.New(why))
	}
	return len(line), nil
}

// textAddr is a net.Addr from a string.
type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }

// requireToken adds the check of the token to a handler, if there is a token.
func (l *Links) requireToken(what string, h http.Handler, open []string) http.Handler {
	if l.token == "" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(open, r.URL.Path) {
			h.ServeHTTP(w, r)
			return
		}
		got, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		reason := wrongToken
		switch {
		case !given:
			reason = noToken
		case subtle.ConstantTimeCompare([]byte(got), []byte(l.token)) == 1:
			h.ServeHTTP(w, r)
			return
		}
		err := errTokenWanted
		if given {
			err = errTokenWrong
		}
		l.noteRefusal(what, textAddr(r.RemoteAddr), reason, err)
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, err.Error(), http.StatusUnauthorized)
	})
}
