// Package serving starts servers and stops them gracefully.
package serving

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/live/link"
	"github.com/replay-llm/replay/live/telemetry"
)

// Begin returns the context of a server. The context ends after a signal, and with untilEOF also when standard input
// ends.
func Begin(ctx context.Context, s cli.Streams, untilEOF bool) (context.Context, context.CancelFunc) {
	s.EndInOwnTime()
	ctx, end := context.WithCancel(ctx)
	if untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, s.In)
			end()
		}()
	}
	return ctx, end
}

// NewLog returns the log of a serving command: warnings on standard error.
func NewLog(s cli.Streams) *slog.Logger {
	return slog.New(telemetry.LogHandler(telemetry.Throttle(LogHandler(s))))
}

// LogHandler returns a handler that writes warnings to standard error in the format of --log-format.
func LogHandler(s cli.Streams) slog.Handler {
	o := &slog.HandlerOptions{Level: slog.LevelWarn}
	if to, ok := s.JSONLog(); ok {
		return slog.NewJSONHandler(to, o)
	}
	return slog.NewTextHandler(s.Err, o)
}

// Server serves until Shutdown.
type Server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

// Links returns the links for a listener for users, configured by the environment. With insecure, the listener needs
// no credentials.
func Links(insecure bool, what, host string) (*link.Links, error) {
	c := link.FromEnv(os.Getenv)
	c.Insecure = c.Insecure || insecure
	l, err := link.New(c)
	if err == nil {
		l = l.ForUsers()
		err = l.Check(what, host)
	}
	if err != nil {
		return nil, cli.Usagef("%v", err)
	}
	return l, nil
}

// Probes returns the paths that need no credentials.
func Probes() []string { return []string{"/live", "/health", "/ping"} }

// URL returns the URL of a listener for clients.
func URL(l net.Listener) string {
	if _, plain := l.(*net.TCPListener); !plain {
		return "https://" + listen.Dialable(l.Addr())
	}
	return "http://" + listen.Dialable(l.Addr())
}

// Announce prints the URL of a listener.
func Announce(s cli.Streams, l net.Listener) error {
	if err := json.NewEncoder(s.Out).Encode(map[string]string{"http": URL(l)}); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// Run serves until ctx ends or lost is closed. Then requests in flight may continue for the time grace.
func Run(ctx context.Context, lost <-chan struct{}, server Server, l net.Listener, grace time.Duration) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	var err error
	select {
	case err = <-served:
	case <-lost:
	case <-ctx.Done():
	}
	end, release := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer release()
	return errors.Join(err, server.Shutdown(end))
}
