package listen

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// bufferBytes is the size of the read buffer of net/http. net/http may read up to bufferBytes of the next request
// before the current request ends.
const bufferBytes = 4096

// connKey is the context key for the connection of a request.
type connKey struct{}

// StrictFraming makes a server reject requests with both Content-Length and Transfer-Encoding and close their
// connections, because a proxy could read the body differently.
//
// StrictFraming returns the listener to serve. maxHead is the maximum size of request headers in bytes.
func StrictFraming(server *http.Server, l net.Listener, maxHead int) net.Listener {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if h, ok := c.(*headConn); ok && state == http.StateIdle {
			h.forget()
		}
	}
	next := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, ok := r.Context().Value(connKey{}).(*headConn)
		if ok && len(r.TransferEncoding) > 0 && h.hasLength(r) {
			w.Header().Set("Connection", "close")
			http.Error(w, "Content-Length and Transfer-Encoding are mutually exclusive", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
	return headListener{l, maxHead + 2*bufferBytes}
}

// headListener accepts connections of type headConn.
type headListener struct {
	net.Listener
	most int
}

func (l headListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &headConn{Conn: c, most: l.most}, nil
}

// headConn records the first bytes of each request and the last bytes that were read.
type headConn struct {
	net.Conn
	most int

	mu   sync.Mutex
	head []byte // bytes read since the connection was idle, at most most bytes
	last []byte // at most bufferBytes
}

func (c *headConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head = append(c.head, b[:min(n, max(0, c.most-len(c.head)))]...)
	if n >= bufferBytes {
		c.last = append(c.last[:0], b[n-bufferBytes:n]...)
	} else if n > 0 {
		c.last = append(c.last, b[:n]...)
		c.last = slices.Delete(c.last, 0, max(0, len(c.last)-bufferBytes))
	}
	return n, err
}

// forget drops the head of a finished request, except the last bytes, because they may belong to the next request.
func (c *headConn) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head = append(c.head[:0], c.last...)
}

// hasLength reports whether the head of a request has both Content-Length and Transfer-Encoding. hasLength searches
// the recorded bytes because net/http removes Content-Length. A valid request that is sent in one write with such a
// request may also be rejected.
func (c *headConn) hasLength(r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := []byte(r.Method + " " + r.RequestURI + " HTTP/1.")
	for rest := c.head; ; {
		at := bytes.Index(rest, line)
		if at < 0 {
			return false
		}
		rest = rest[at+len(line):]
		head, _, _ := bytes.Cut(rest, []byte("\r\n\r\n"))
		head, _, _ = bytes.Cut(head, []byte("\n\n"))
		head = bytes.ToLower(head)
		if bytes.Contains(head, []byte("\ncontent-length:")) && bytes.Contains(head, []byte("\ntransfer-encoding:")) {
			return true
		}
	}
}
