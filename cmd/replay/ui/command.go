// Package ui holds the command ui. The command serves one page, only on the loopback address. The page requests runs
// from a session of package explore.
//
// Read command.go, then server.go (the requests and their answers) and plan.go (the search for a cluster).
package ui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/replay/plans"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/explore"
	"github.com/replay-llm/replay/internal/file"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/report/html"
)

// serving holds the flags of replay ui.
type serving struct {
	port   int
	noOpen bool
	token  string
	gpu    string
	model  string
	files  map[string]*[]string // that knobs may name, by flag
}

func (f *serving) bindFlags(fs *pflag.FlagSet) {
	fs.SortFlags = false
	start := explore.StartSettings()
	fs.IntVar(&f.port, "port", 0, "`port` to listen at; 0: any free port")
	fs.StringVar(&f.gpu, "gpu", start["gpu"], "GPU that the page starts with, by `name`; none: built-in pass times")
	fs.StringVar(&f.model, "model", start["model"], "model that the page starts with, by `name`")
	fs.StringVar(&f.token, "token", "", "secret first `part` of the path of the address, at least 16 letters and digits (default: random)")
	f.files = map[string]*[]string{}
	for _, name := range explore.OfferFlags() {
		f.files[name] = fs.StringArray(name, nil, "`file` that the page offers for --"+name+"; repeatable")
	}
	fs.BoolVar(&f.noOpen, "no-open", false, "print the address and open no browser")
	cli.BindLogFormat(fs)
}

// NewUICommand returns the command ui, which serves replays as a web page.
func NewUICommand(s cli.Streams) *cobra.Command {
	f := &serving{}
	cmd := &cobra.Command{
		Use:   "ui [TRACE|DIR...]",
		Short: "Change the settings of a replay in the browser",
		Long: `Serve a web page on this machine only, to change the settings of a replay and
see the result after every change. The page offers the named traces, the files
of the named directories, and files that are dropped on the page (kept in
memory). Ctrl-C ends it. docs/explore.md describes the page.`,
		Example: `  replay ui requests.jsonl
  replay ui traces/ --port 8080 --no-open
  replay ui requests.jsonl --router-policy mine.yaml --faults zone.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.port < 0 || f.port > 65535 {
				return cli.Usagef("--port=%d: must be 0 to 65535", f.port)
			}
			if f.token != "" && !regexp.MustCompile(`^[0-9A-Za-z]{16,64}$`).MatchString(f.token) {
				return cli.Usagef("--token=%s: must be 16 to 64 letters and digits", f.token)
			}
			session := explore.New()
			if err := f.checkStart(session); err != nil {
				return err
			}
			if err := addAll(cmd.Context(), session, args); err != nil {
				return err
			}
			if err := f.offerFiles(session); err != nil {
				return err
			}
			return f.serve(cmd.Context(), s, session, args)
		},
	}
	return cli.BindOwn(cmd, f.bindFlags)
}

// offerFiles lets the settings of a session name the given files.
func (f *serving) offerFiles(session *explore.Session) error {
	for _, name := range explore.OfferFlags() {
		for _, path := range *f.files[name] {
			if err := session.Offer(name, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// addAll adds traces and directories that are one trace. From other directories it adds the files that appear to be
// traces.
func addAll(ctx context.Context, session *explore.Session, paths []string) error {
	for _, path := range paths {
		stat, err := file.Stat(path)
		switch {
		case err != nil:
			return err
		case !stat.IsDir() && !stat.Mode().IsRegular():
			return fmt.Errorf("%s: must be a file or a directory", path)
		case !stat.IsDir() || isTrace(ctx, path):
			err = session.AddFile(path)
		default:
			err = addFiles(session, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isTrace reports whether a directory is one trace: clients of ServeGen, or conversations.
func isTrace(ctx context.Context, dir string) bool {
	s, err := registry.OpenPath(dir, nil, formats.Options{Stop: ctx.Err})
	if err != nil {
		return false
	}
	defer s.Close()
	return s.Next(new(formats.Record)) == nil
}

// addFiles adds the files of a directory that appear to be traces.
func addFiles(session *explore.Session, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		if name := e.Name(); e.Type().IsRegular() && looksLikeTrace(name) {
			if err := session.AddFile(filepath.Join(dir, name)); err != nil {
				return err
			}
			found = true
		}
	}
	if !found {
		return fmt.Errorf("%s: no file in it is named like a trace, must be one that ends in .jsonl, .json or .csv, also packed", dir)
	}
	return nil
}

func looksLikeTrace(name string) bool {
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	switch filepath.Ext(name) {
	case ".jsonl", ".json", ".csv":
		return true
	}
	return false
}

// start returns the initial settings of the page.
func (f *serving) start() explore.Settings {
	if f.gpu == "none" {
		return explore.Settings{}
	}
	return explore.Settings{"gpu": f.gpu, "model": f.model}
}

// checkStart rejects a GPU or a model that the page does not offer.
func (f *serving) checkStart(session *explore.Session) error {
	for _, k := range session.Knobs() {
		if v, ok := f.start()[k.Flag]; ok && !slices.Contains(k.Choices, v) {
			return cli.Usagef("--%s=%s: must be one of %s%s", k.Flag, v, strings.Join(k.Choices, ", "), nearest.Ask(v, k.Choices))
		}
	}
	return nil
}

// restart returns the command that serves the page of a site again at the same address.
func (f *serving) restart(s *site, args []string) string {
	_, port, _ := net.SplitHostPort(s.host)
	words := append([]string{"ui"}, args...)
	for _, name := range explore.OfferFlags() {
		for _, path := range *f.files[name] {
			words = append(words, "--"+name, path)
		}
	}
	words = append(words, "--port", port, "--token", s.token)
	return cli.QuoteCommand(words)
}

// writePage writes the page with the initial data of the session.
func writePage(w io.Writer, session *explore.Session, begin explore.Begin) error {
	begin.Traces, begin.Knobs, begin.Most, begin.Plan = session.Traces(), session.Knobs(), explore.MostText, plans.ListVaried()
	return html.WriteExplorer(w, begin)
}

// serve serves the page until ctx ends.
func (f *serving) serve(ctx context.Context, s cli.Streams, session *explore.Session, args []string) error {
	listener, err := listen.Open("page", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port)), "loopback")
	if err != nil {
		return fmt.Errorf("--port=%d: %w", f.port, err)
	}
	defer listener.Close()
	site := newSite(session, listener.Addr().String(), f.token)
	var page bytes.Buffer
	if err := writePage(&page, session, explore.Begin{Start: f.start(), Restart: f.restart(site, args)}); err != nil {
		return err
	}
	site.show(page.Bytes())
	server := newServer(ctx, site)
	server.ErrorLog = log.New(s.Err, cli.FormatWarning(""), 0)
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := announceAddress(s, site.address()); err != nil {
		return err
	}
	if !f.noOpen {
		openBrowser(ctx, site.address())
	}
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// announceAddress prints the address of the page.
func announceAddress(s cli.Streams, address string) error {
	if _, ok := s.JSONLog(); ok {
		return json.NewEncoder(s.Out).Encode(map[string]string{"http": address})
	}
	_, err := fmt.Fprintf(s.Out, "Serving %s until Ctrl-C\n", address)
	return err
}

// newServer returns the server of a site, with timeouts for slow clients.
func newServer(ctx context.Context, s *site) *http.Server {
	return &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 5 * time.Minute, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
}

// openBrowser opens an address in the default browser, if there is one.
func openBrowser(ctx context.Context, address string) {
	cmd := exec.CommandContext(ctx, "xdg-open", address)
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.CommandContext(ctx, "open", address)
	case "windows":
		cmd = exec.CommandContext(ctx, "rundll32", "url.dll,FileProtocolHandler", address)
	}
	if cmd.Start() == nil {
		go cmd.Wait()
	}
}
