package link

import (
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/live/tcp"
)

// The reasons for which connections are refused, as they are counted.
const (
	noToken       = "no_token"
	wrongToken    = "wrong_token"
	noCertificate = "no_certificate"
)

// Listen listens at an address for connections that are proven where they have to
// be. what names the listener in errors and counts. Connections are turned away
// while most of them are open; 0: no limit.
func (l *Links) Listen(what, address string, most int) (*tcp.Server, error) {
	at, err := l.checkAddress(what, address)
	if err != nil {
		return nil, err
	}
	s, err := tcp.Listen(at.String(), most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if !at.IP.IsLoopback() && l.wantsProof() {
		s.Admit = func(c net.Conn) (net.Conn, error) { return l.admitConn(what, c) }
	}
	return s, nil
}

// Check returns why nobody should listen at a host, if that is so.
func (l *Links) Check(what, host string) error {
	_, err := l.checkAddress(what, net.JoinHostPort(host, "0"))
	return err
}

// checkAddress resolves an address to listen at, and refuses it where whoever
// reaches it would be let in unasked.
func (l *Links) checkAddress(what, address string) (*net.TCPAddr, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", what, address, err)
	}
	if at.IP == nil {
		at.IP = net.IPv4zero
	}
	if !at.IP.IsLoopback() && !l.wantsProof() && !l.insecure {
		return nil, fmt.Errorf("%s at %s, which other machines may reach: want certificates (--link-cert, --link-key, --link-ca), a token in $REPLAY_LINK_TOKEN, or --insecure", what, at.IP)
	}
	return at, nil
}

// admitConn returns a connection whose other side has proven what it has to.
func (l *Links) admitConn(what string, raw net.Conn) (net.Conn, error) {
	from := raw.RemoteAddr()
	_ = raw.SetDeadline(time.Now().Add(handshakeTime))
	c := raw
	if l.server != nil {
		secure := tls.Server(raw, l.server)
		if err := secure.Handshake(); err != nil {
			var plain tls.RecordHeaderError
			if errors.As(err, &plain) {
				err = errors.New("this listener wants TLS with a certificate of yours (--link-cert, --link-key, --link-ca)")
				sayRefusal(raw, err)
			}
			l.noteRefusal(what, from, noCertificate, err)
			return nil, err
		}
		c = secure
	}
	if l.token != "" {
		if reason, err := proveListener(c, l.token); err != nil {
			sayRefusal(c, err)
			l.noteRefusal(what, from, reason, err)
			return nil, err
		}
	}
	return c, raw.SetDeadline(time.Time{})
}

// refusalPrefix is what a connection begins with that is refused: no protocol of
// ours does.
const refusalPrefix = "replay: refused: "

// sayRefusal writes a line to the other side: why it is refused.
func sayRefusal(c net.Conn, why error) {
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, refusalPrefix+why.Error()+"\n"); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	// A connection that is closed with something unread may lose the line.
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20))
}

// HTTP returns a listener for a server of HTTP, and what that server is to put
// before its handler. Where the listener is not on loopback it wants certificates, or
// the token as Authorization: Bearer for all paths but those that are open.
func (l *Links) HTTP(what, address string, open ...string) (net.Listener, func(http.Handler) http.Handler, error) {
	at, err := l.checkAddress(what, address)
	if err != nil {
		return nil, nil, err
	}
	s, err := net.Listen("tcp", at.String())
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", what, err)
	}
	if at.IP.IsLoopback() {
		return s, func(h http.Handler) http.Handler { return h }, nil
	}
	if l.server != nil {
		secure := l.server.Clone()
		secure.NextProtos = []string{"http/1.1"}
		s = tls.NewListener(s, secure)
	}
	return s, func(h http.Handler) http.Handler { return l.askToken(what, h, open) }, nil
}

// ErrorLog returns where a server of HTTP writes that connections failed: those without
// a certificate are counted.
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

// textAddr is an address that is text.
type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }

// askToken puts the question for the token before a handler, if there is one.
func (l *Links) askToken(what string, h http.Handler, open []string) http.Handler {
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

// Told returns the address that others are told for a listener: where it listens, or
// the first routable address where that is everywhere.
func Told(at *net.TCPAddr) string {
	if !at.IP.IsUnspecified() {
		return at.String()
	}
	return net.JoinHostPort(RoutableAddress(), strconv.Itoa(at.Port))
}

// RoutableAddress returns the first address of this machine that others may reach, or
// loopback.
func RoutableAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}
