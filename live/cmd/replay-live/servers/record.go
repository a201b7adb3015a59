package servers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/credential"
	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/live/cmd/replay-live/serving"
	"github.com/replay-llm/replay/live/measure"
	"github.com/replay-llm/replay/live/record"
)

// recordFlags are the flags of record.
type recordFlags struct {
	flags     cli.Flags
	listen    string
	upstreams []string
	keyFile   string
	server    serverArgs
	out       string
	partBytes int64
	partTime  time.Duration
	grace     time.Duration
	untilEOF  bool
	insecure  bool
	o         record.Options
}

// NewRecordCommand returns the command that measures the traffic between clients and a server.
func NewRecordCommand(s cli.Streams) *cobra.Command {
	f := &recordFlags{}
	cmd := &cobra.Command{
		Use:   "record --listen ADDRESS --upstream URL --out DIR",
		Short: "Forward requests to a real server, and write a measured run",
		Long: `Forward requests of clients to a server with OpenAI's API, every byte
unchanged. Write the times, tokens and prompt blocks of each request for
completions or chat as a measured run, which replay validate, calibrate and
trace read.

No text is kept. Blocks are hashes with a random key that stays in the process,
or with the key of --key-file. Several --upstream are used in turn.

It prints one line of JSON with its address and forwards until SIGINT or
SIGTERM; then it takes no more requests, waits up to --grace for those in
flight, and ends with exit code 0. Every written line is complete.`,
		Example: `  replay record --upstream http://a:8000 --out runs/today
  replay record --upstream http://a:8000 --upstream http://b:8000 --out runs/two`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	f.flags.Bind(cmd, cli.NewGroup("Flags", f.bind))
	return cmd
}

func (f *recordFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`address` to listen at, host:port; port 0: any free port")
	fs.StringArrayVar(&f.upstreams, "upstream", nil, "`URL` of the server; repeatable: several servers are used round robin")
	fs.StringVar(&f.out, "out", "", "write the measured run into this new `DIR`")
	fs.StringVar(&f.o.Tokenizer, "tokenizer", "", "tokenizer.json `FILE`: hash blocks of tokens (default: hash blocks of bytes)")
	fs.Float64Var(&f.o.BytesPerToken, "bytes-per-token", 4, "without --tokenizer: number of `bytes` of text per token")
	fs.IntVar(&f.o.BlockTokens, "block-size", 16, "number of `tokens` per hash id of the trace")
	fs.StringVar(&f.keyFile, "key-file", "", "`FILE` with the key of the hashes (at least 32 bytes); runs with the same key have the same hashes")
	fs.StringVar(&f.o.ServerHeader, "server-header", "", "`name` of the response header that identifies the server")
	f.server.bind(fs)
	fs.Int64Var(&f.partBytes, "part-bytes", 0, "size in `bytes` after which a new part of the run, a directory part-N, begins; 0: never")
	fs.DurationVar(&f.partTime, "part-time", 0, "`time` after which a new part of the run begins, such as 1h; 0: never")
	fs.DurationVar(&f.grace, "grace", 10*time.Second, "maximum `time` to wait for requests in flight at shutdown")
	fs.BoolVar(&f.insecure, "insecure", false, "allow listening outside loopback without credentials: every client is accepted")
	fs.BoolVar(&f.untilEOF, "until-eof", false, "also shut down when standard input ends")
	cli.BindLogFormat(fs)
	cli.BindHelp(fs)
}

// check checks the flags.
func (f *recordFlags) check() error {
	if len(f.upstreams) == 0 {
		return cli.Usagef("--upstream is required: the URL of a server, such as http://server:8000")
	}
	for _, text := range f.upstreams {
		u, err := parseServer("upstream", text, credential.Hide(text))
		if err != nil {
			return err
		}
		f.o.Upstreams = append(f.o.Upstreams, u)
	}
	if f.out == "" {
		return cli.Usagef("--out is required: a new directory for the measured run")
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return cli.Usagef("--listen=%s: must be host:port", f.listen)
	}
	if _, err := listen.Check("--listen", f.listen, f.missing()); err != nil {
		return cli.Usagef("%v", err)
	}
	return f.flags.Check(
		cli.Wants(f.o.BlockTokens > 0, "block-size", "at least 1"), cli.Wants(f.o.BytesPerToken >= 0.1, "bytes-per-token", "at least 0.1"),
		cli.Needs(f.o.Tokenizer == "", "without --tokenizer", "bytes-per-token"),
		cli.Wants(f.partBytes >= 0, "part-bytes", "at least 0"), cli.Wants(f.partTime >= 0, "part-time", "at least 0"), cli.Wants(f.grace >= 0, "grace", "at least 0"))
}

// missing returns the flag that a listener outside loopback requires.
func (f *recordFlags) missing() string {
	if f.insecure || os.Getenv("REPLAY_LINK_INSECURE") == "1" {
		return ""
	}
	return "--insecure"
}

// hidePasswords returns the URLs without passwords.
func hidePasswords(urls []string) (all []string) {
	for _, u := range urls {
		all = append(all, credential.Hide(u))
	}
	return all
}

// run forwards requests until ctx ends.
func (f *recordFlags) run(ctx context.Context, s cli.Streams) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	meta, err := f.server.parse()
	if err != nil {
		return err
	}
	if f.o.Key, err = record.ReadKey(f.keyFile); err != nil {
		return err
	}
	if text := record.WarnOfKey(f.keyFile); text != "" {
		s.Warn(text)
	}
	addFound(ctx, meta, f.o.Upstreams[0].String(), http.Header{})
	meta["recorded_by"], meta["upstreams"] = "replay record", hidePasswords(f.upstreams)
	f.o.Log = slog.New(serving.LogHandler(s))
	p, err := record.New(f.o)
	if err != nil {
		return err
	}
	l, err := listen.Open("--listen", f.listen, f.missing())
	if err != nil {
		return err
	}
	run, err := measure.Create(f.out, measure.Options{
		BlockTokens: f.o.BlockTokens, Meta: meta, PartBytes: f.partBytes, PartTime: f.partTime,
		Warn: func(err error) { f.o.Log.Warn("requests pass, and are not written any more", "because", err) },
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ctx, end := serving.Begin(ctx, s, f.untilEOF)
	defer end()
	if err = serving.Announce(s, l); err == nil {
		err = serving.Run(ctx, nil, p.Into(run), l, f.grace)
	}
	return errors.Join(err, run.Close())
}
