package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cmd/replay-live/serving"
	"github.com/replay-llm/replay/live/link"
	"github.com/replay-llm/replay/live/standalone"
)

// fleet is a number of servers at consecutive ports.
type fleet struct {
	host  string
	port  int // first port; 0: any port for each server
	size  int
	links *link.Links
	tls   *tls.Config // nil: HTTP, or HTTPS by links
	grace time.Duration
	// start starts the engine of server i. ask adds authentication to a handler.
	start func(ctx context.Context, i int, ask func(http.Handler) http.Handler) (serving.Server, error)
	// line returns the line to print for a server when all servers listen.
	line func(one serving.Server, url string) any
}

// member is a server of a fleet and its listener.
type member struct {
	serving.Server
	listener net.Listener
}

// serve serves until ctx ends. If a server cannot listen, serve stops all servers.
func (f *fleet) serve(ctx context.Context, s cli.Streams) error {
	var all []member
	stop := func(cause error) error {
		end, release := context.WithTimeout(context.WithoutCancel(ctx), f.grace)
		defer release()
		failed := make([]error, len(all))
		var wg sync.WaitGroup
		for i, one := range all {
			wg.Go(func() { failed[i] = errors.Join(one.Shutdown(end), closeListener(one.listener)) })
		}
		wg.Wait()
		return errors.Join(append([]error{cause}, failed...)...)
	}
	for i := range f.size {
		one, err := f.open(ctx, i)
		if err != nil {
			return stop(err)
		}
		all = append(all, one)
	}
	for _, one := range all {
		if err := json.NewEncoder(s.Out).Encode(f.line(one.Server, serving.URL(one.listener))); err != nil {
			return stop(err)
		}
	}
	served := make(chan error, len(all))
	for _, one := range all {
		go func() { served <- one.Serve(one.listener) }()
	}
	for crashed := 0; ; {
		select {
		case err := <-served:
			if crashed++; !errors.Is(err, standalone.ErrCrashed) || crashed == len(all) {
				return stop(err)
			}
		case <-ctx.Done():
			return stop(nil)
		}
	}
}

// open listens for one server and starts it.
func (f *fleet) open(ctx context.Context, i int) (one member, err error) {
	port := f.port
	if port > 0 {
		port += i
	}
	var ask func(http.Handler) http.Handler
	if one.listener, ask, err = f.links.HTTP("--host", net.JoinHostPort(f.host, strconv.Itoa(port)), serving.Probes()...); err != nil {
		return one, err
	}
	if f.tls != nil {
		one.listener = tls.NewListener(one.listener, f.tls)
	}
	if one.Server, err = f.start(ctx, i, ask); err != nil {
		return one, errors.Join(err, one.listener.Close())
	}
	return one, nil
}

// closeListener closes a listener. closeListener ignores the error if the server has closed the listener already.
func closeListener(l net.Listener) error {
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
