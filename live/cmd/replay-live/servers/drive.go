// Package servers has the commands for servers of other projects: drive plays a trace against a server, record
// measures its traffic.
package servers

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/credential"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/drive"
	"github.com/replay-llm/replay/live/measure"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/online"
)

// driveFlags are the flags of drive.
type driveFlags struct {
	o       options.Options // flags of the workload
	target  drive.Options
	user    credential.User // user of the URL
	headers []string
	api     cli.Choice
	prompts cli.Choice
	ids     int
	salt    uint64
	body    string
	server  serverArgs
	out     string
	spin    bool
	end     time.Duration
	form    cli.Choice
}

// NewDriveCommand returns the command that plays a workload against a real server.
func NewDriveCommand(s cli.Streams) *cobra.Command {
	f := &driveFlags{}
	cmd := &cobra.Command{
		Use:   "drive [FILE] --url URL",
		Short: "Send a trace to a real server, and write a measured run",
		Long: `Send the requests of a workload to a server with OpenAI's API, at the times of
the trace, or with a constant number in flight (--max-in-flight). A turn of a
session waits for the previous answer. The measured times are in the directory
--out, which replay validate and replay calibrate read.

Prompts are generated: equal blocks of the trace become equal text. Prompt
lengths are exact with --tokenizer, and with --prompts ids, which vLLM and
SGLang support. Answers have the lengths of the trace if the server supports
ignore_eos. The command reports how late it sent requests. Ctrl-C ends the run
and writes the requests so far.`,
		Example: `  replay drive day.jsonl --url http://a:8000 --prompts ids --out runs/a
  replay drive day.jsonl --url http://a:8000 --tokenizer t.json --out runs/b
  replay drive day.jsonl --url http://a:8000 --max-in-flight 16 --out runs/c`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), s, args) },
	}
	f.o.BindWorkload(cmd, cli.NewGroup("Server", f.bindServer, "url", "model", "out", "prompts"))
	return cmd
}

func (f *driveFlags) bindServer(fs *pflag.FlagSet) {
	t := &f.target
	f.api = cli.Choice{Names: []string{"completions", "chat"}, Value: "completions"}
	f.prompts = cli.Choice{Names: []string{"words", "ids"}, Value: "words"}
	fs.StringVar(&t.URL, "url", "", "`URL` of the server, such as http://server:8000")
	fs.StringVar(&t.Model, "model", "", "`name` of the model")
	fs.Lookup("model").DefValue = "the first that the server lists"
	fs.StringVar(&f.out, "out", "", "write the measured run into this new `DIR`")
	fs.Var(&f.prompts, "prompts", "`kind` of prompts to send: words or ids (token ids)")
	fs.IntVar(&f.ids, "ids-below", 2000, "with --prompts ids: all token ids are below this `number`")
	fs.Uint64Var(&f.salt, "salt", 0, "seed of the prompt texts, a `number`")
	fs.Lookup("salt").DefValue = "a new seed for each run, so that no prompt is in the cache"
	fs.Var(&f.api, "api", "`kind` of requests to send: completions or chat")
	fs.BoolVar(&t.Whole, "no-stream", false, "request answers without streaming; first tokens are then not measured")
	fs.StringVar(&f.body, "body", "{}", "members to add to every request body, a JSON `object`; null removes a member, as in {\"ignore_eos\":null}")
	fs.StringArrayVar(&f.headers, "header", nil, "`header` to add to every request, as \"Authorization: Bearer KEY\"; repeatable")
	fs.StringVar(&t.SessionHeader, "session-header", "", "`name` of a request header that gets the session id")
	fs.StringVar(&t.ServerHeader, "server-header", "", "`name` of the response header that identifies the server")
	f.server.bind(fs)
	fs.DurationVar(&t.Timeout, "timeout", 10*time.Minute, "maximum `time` for a request")
	fs.DurationVar(&f.end, "deadline", 0, "end the run after this `time`, as 90s; 0: never")
	fs.BoolVar(&f.spin, "spin", false, "poll the clock before each arrival; takes one processor")
	cli.BindForm(fs, &f.form)
}

// check checks the flags, and reads the URL of the server.
func (f *driveFlags) check() error {
	bare, who, err := credential.Split(f.target.URL)
	if err != nil {
		return cli.Usagef("--url: %v", err)
	}
	if bare == "" {
		return cli.Usagef("--url is required: the URL of a server, such as http://server:8000")
	}
	u, err := parseServer("url", bare, credential.Hide(f.target.URL))
	if err != nil {
		return err
	}
	f.target.URL, f.user = u.String(), who
	if f.out == "" {
		return cli.Usagef("--out is required: a new directory for the measured run")
	}
	f.target.Chat, f.target.Headers = f.api.Value == "chat", http.Header{}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return cli.Usagef("--header=%s: must be NAME: VALUE", h)
		}
		f.target.Headers.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if f.user != (credential.User{}) && f.target.Headers.Get("Authorization") == "" {
		both := base64.StdEncoding.EncodeToString([]byte(f.user.Name + ":" + f.user.Password))
		f.target.Headers.Set("Authorization", "Basic "+both)
	}
	if json.Unmarshal([]byte(f.body), &f.target.Body) != nil {
		return cli.Usagef("--body=%s: must be a JSON object", f.body)
	}
	ids := f.prompts.Value == "ids"
	return f.o.Check(
		cli.Wants(f.ids > 1 && f.ids <= 1<<31, "ids-below", "2 to 2147483648"), cli.Needs(ids, "with --prompts ids", "ids-below"),
		cli.Wants(!ids || !f.target.Chat, "prompts", "words with --api chat"),
		cli.Wants(f.target.Timeout > 0, "timeout", "a time above 0"), cli.Wants(f.end >= 0, "deadline", "at least 0"))
}

// driving is the state of one run of drive.
type driving struct {
	f         *driveFlags
	tokenizer string
	meta      map[string]any
	workload  *loadgen.Workload
	run       *measure.Run
	target    *drive.Target
	kept      *drive.Kept
}

// run drives the workload.
func (f *driveFlags) run(ctx context.Context, s cli.Streams, args []string) error {
	d := &driving{f: f, kept: drive.NewKept()}
	spec, tokenizer, err := f.o.WorkloadSpec(args)
	if err := cmp.Or(err, f.check()); err != nil {
		return err
	}
	d.tokenizer = tokenizer
	if d.meta, err = f.server.parse(); err != nil {
		return err
	}
	streams := replay.Streams{
		Stdin: s.In, Warn: s.Warn,
		Opened: func(w *loadgen.Workload) { d.workload = w },
	}
	if bar := cli.NewProgress(s.Err, "requests"); bar != nil {
		streams.Progress = bar.Show
		defer bar.Clear()
	}
	live := replay.Live{Pace: online.Pace{Precise: f.spin, Deadline: f.end}}
	result, err := spec.Drive(ctx, streams, live, func(rec *online.Recorder, clock *online.Clock) (online.Target, error) {
		if err := d.open(ctx); err != nil {
			return nil, err
		}
		return d.target.Begin(ctx, rec, clock), nil
	})
	if d.target != nil {
		d.target.Close()
	}
	if d.run != nil {
		err = errors.Join(err, d.run.Close())
	}
	if err != nil {
		return err
	}
	return d.report(s, result)
}

// open generates prompts, reads the server's settings, and creates the directory of the run.
func (d *driving) open(ctx context.Context) error {
	f, t := d.f, &d.f.target
	if err := drive.CheckBlocks(d.workload); err != nil {
		return err
	}
	if !f.o.Changed("salt") {
		f.salt = rand.Uint64N(1 << 53)
	}
	prompts, err := drive.NewWords(d.workload, d.tokenizer, f.salt)
	if f.prompts.Value == "ids" {
		prompts, err = drive.NewIDs(d.workload, f.ids, f.salt), nil
	}
	if err != nil {
		return err
	}
	if t.Model == "" {
		if t.Model, err = drive.FindModel(ctx, t.URL, t.Headers); err != nil {
			return err
		}
	}
	addFound(ctx, d.meta, t.URL, t.Headers)
	d.meta["salt"] = f.salt
	d.meta["recorded_by"], d.meta["url"], d.meta["served_model"], d.meta["prompts"] = "replay drive", t.URL, t.Model, f.prompts.Value
	if d.run, err = measure.Create(f.out, measure.Options{BlockTokens: cmp.Or(d.workload.TraceBlock, 512), Meta: d.meta}); err != nil {
		return err
	}
	d.target, err = drive.NewTarget(*t, prompts, d.run, d.kept)
	return err
}

// report writes the result, and returns an error if the run is incomplete.
func (d *driving) report(s cli.Streams, r *harness.Result) error {
	f, kept, about, total := d.f, d.kept, s.Out, len(d.workload.Turns)
	if f.form.Value == "json" {
		about = s.Err
		r.Report.Add(kept.Fields()...)
		if err := r.Report.WriteJSON(s.Out); err != nil {
			return err
		}
	} else if err := r.Report.WriteText(s.Out, collector.Text{Title: "replay drive | " + f.target.URL}); err != nil {
		return err
	}
	kept.WriteText(about)
	if text := kept.Warning(); text != "" {
		s.Warn(text)
	}
	fmt.Fprintf(about, "Measured run: %s\n", f.out)
	if n, first := kept.Failed(); !r.Partial && n > 0 {
		return cli.Coded(cli.ExitIncomplete, "%d of %d requests ended with an error: %s", n, total, first)
	}
	if !r.Partial {
		return nil
	}
	code := cli.ExitInterrupted
	var signal *cli.SignalError
	switch {
	case errors.Is(r.Cause, online.ErrDeadline):
		code = cli.ExitDiffer
	case errors.As(r.Cause, &signal):
		code = signal.Exit()
	}
	return cli.Coded(code, "%v: %d of %d requests were cancelled or never sent", r.Cause, total-r.Report.Completed, total)
}
