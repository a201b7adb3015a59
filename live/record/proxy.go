// Package record is a proxy between clients and servers with OpenAI's API. The proxy forwards everything unchanged
// and records the measurements of each request.
//
// The proxy records no text: a prompt is recorded as the keyed hashes of its blocks. Read proxy.go (the upstreams),
// exchange.go (one request and its answer), prompts.go (its hashes).
package record

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/measure"
)

// Options configure a proxy.
type Options struct {
	Upstreams     []*url.URL // upstreams are used in turn
	Key           []byte     // key of the hashes
	BlockTokens   int        // tokens of a hashed block
	Tokenizer     string     // path of a tokenizer.json; "": blocks are runs of bytes
	BytesPerToken float64    // bytes per token if there is no tokenizer
	ServerHeader  string     // response header with the name of the server; "": use the upstream
	Log           *slog.Logger
}

// bufferBytes is the size of the copy buffer of an answer. bufferBytes is small because every open stream uses one
// buffer.
const bufferBytes = 4 << 10

// Proxy is a handler that forwards requests.
type Proxy struct {
	o       Options
	run     *measure.Run
	hashers *hashers
	proxy   *httputil.ReverseProxy
	server  *http.Server
	next    atomic.Uint64 // number of requests so far
	active  atomic.Int64
	buffers sync.Pool
}

// New makes a proxy. Serve starts the proxy.
func New(o Options) (*Proxy, error) {
	h, err := newHashers(&o, min(4, runtime.GOMAXPROCS(0)))
	if err != nil {
		return nil, err
	}
	p := &Proxy{o: o, hashers: h}
	p.buffers.New = func() any { return new([bufferBytes]byte) }
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.DisableCompression, transport.Proxy = 0, 1<<16, true, nil
	p.proxy = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, BufferPool: p, Rewrite: p.rewrite, ModifyResponse: p.watchAnswer,
		ErrorHandler: p.reportError, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: p.proxy.ErrorLog}
	return p, nil
}

// Get returns a buffer for copying an answer. Get and Put implement httputil.BufferPool.
func (p *Proxy) Get() []byte { return p.buffers.Get().(*[bufferBytes]byte)[:] }

// Put returns a buffer to the pool.
func (p *Proxy) Put(b []byte) { p.buffers.Put((*[bufferBytes]byte)(b)) }

// exchangeKey is the context key of the exchange of a request.
type exchangeKey struct{}

// ServeHTTP forwards a request. ServeHTTP measures completion and chat requests.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{proxy: p, upstream: p.o.Upstreams[0], client: r.Context()}
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/completions") {
		x.upstream = p.o.Upstreams[(p.next.Add(1)-1)%uint64(len(p.o.Upstreams))]
		x.begin(r)
		defer x.end()
	}
	p.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
}

func exchangeOf(r *http.Request) *exchange {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	return x
}

// rewrite directs a request to its upstream and changes nothing else.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	x := exchangeOf(r.In)
	r.SetURL(x.upstream)
	r.Out.Host = r.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if all, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = all
		}
	}
	if r.In.Header.Get("User-Agent") == "" {
		r.Out.Header.Set("User-Agent", "") // prevents the default User-Agent
	}
}

func (p *Proxy) watchAnswer(response *http.Response) error {
	if x := exchangeOf(response.Request); x.measured {
		x.beginAnswer(response)
	}
	return nil
}

// reportError writes the error response for an upstream that does not answer, in OpenAI's format.
func (p *Proxy) reportError(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r)
	x.failed, x.row.Code = err, http.StatusBadGateway
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadGateway)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{ // the write fails if the client has disconnected
		"message": "no answer from " + x.upstream.Host, "type": "upstream_error", "param": nil, "code": http.StatusBadGateway,
	}})
}

// Into makes p write its measurements to run, and returns p.
func (p *Proxy) Into(run *measure.Run) *Proxy {
	p.run = run
	return p
}

// Serve serves connections of l until Shutdown, and then returns nil.
func (p *Proxy) Serve(l net.Listener) error {
	if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops accepting requests and waits for the requests in flight. If ctx ends first, Shutdown aborts the
// requests in flight. Afterwards the run contains all requests.
func (p *Proxy) Shutdown(ctx context.Context) error {
	err := p.server.Shutdown(ctx)
	if err != nil {
		err = p.server.Close()
		for wait := time.Now().Add(time.Second); p.active.Load() > 0 && time.Now().Before(wait); {
			time.Sleep(time.Millisecond)
		}
	}
	p.hashers.close()
	return err
}
