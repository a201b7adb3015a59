package serve

import (
	"bufio"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
)

// tailFlags are the flags of kv-tail.
type tailFlags struct {
	replay, topic string
	count         int
	length        time.Duration
	json          bool
	quiet         bool
}

// NewKVTailCommand returns the command that prints the KV events of a worker.
func NewKVTailCommand(s cli.Streams) *cobra.Command {
	f := &tailFlags{}
	cmd := &cobra.Command{
		Use:   "kv-tail ENDPOINT",
		Short: "Print the KV events that a worker publishes",
		Long: `Print the KV events of a worker: the blocks that it has cached or evicted.
ENDPOINT is the address of its events, tcp://host:port. --replay is the replay
endpoint of the worker, from which earlier and lost events are requested. They
arrive as batches, or as a snapshot if the worker no longer keeps them.

A line has the sequence number of the batch, its origin, the rank, and the
event. Hashes are hexadecimal. The summary is printed on standard error.`,
		Example: `  replay kv-tail tcp://127.0.0.1:5557 --replay tcp://127.0.0.1:5558
  replay kv-tail tcp://127.0.0.1:5557 --json --count 100`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.subscriberOptions(args)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), s, o)
		},
	}
	cli.BindOwn(cmd, func(fs *pflag.FlagSet) {
		fs.StringVar(&f.replay, "replay", "", "`ENDPOINT` that sends missed events again (default: only new events are printed)")
		fs.StringVar(&f.topic, "topic", "", "print only events with a topic that begins with this `PREFIX`")
		fs.IntVar(&f.count, "count", 0, "exit after this number of `batches`; 0: never")
		fs.DurationVar(&f.length, "for", 0, "exit after this `time`, such as 10s; 0: never")
		fs.BoolVar(&f.json, "json", false, "print each event as one line of JSON")
		fs.BoolVar(&f.quiet, "quiet", false, "print no events, only the summary")
		cli.BindLogFormat(fs)
	})
	return cmd
}

// subscriberOptions checks the flags and returns the options of the subscriber.
func (f *tailFlags) subscriberOptions(args []string) (o kvevents.SubscriberOptions, err error) {
	switch {
	case len(args) == 0:
		return o, cli.Usagef("no endpoint: expected where a worker publishes KV events, tcp://host:port")
	case len(args) > 1:
		return o, cli.Usagef("%s: must be one endpoint", args[1])
	case f.count < 0:
		return o, cli.Usagef("--count: %d, must be at least 0", f.count)
	case f.length < 0:
		return o, cli.Usagef("--for: %v, must be at least 0", f.length)
	case f.json && f.quiet:
		return o, cli.Usagef("--json: not with --quiet, which prints no events")
	}
	if err := zmtp.CheckEndpoint(args[0]); err != nil {
		return o, cli.Usagef("%v", err)
	}
	if f.replay != "" {
		if err := zmtp.CheckEndpoint(f.replay); err != nil {
			return o, cli.Usagef("--replay: %v", err)
		}
	}
	return kvevents.SubscriberOptions{Events: args[0], Replay: f.replay, Topic: f.topic}, nil
}

// tail prints received batches.
type tail struct {
	flags *tailFlags
	end   context.CancelCauseFunc

	mu     sync.Mutex
	out    *bufio.Writer
	left   int // remaining batches to print; below 0: no limit
	over   bool
	events int
}

// errEnough ends a tail after the requested number of batches.
var errEnough = fmt.Errorf("enough")

func (f *tailFlags) run(ctx context.Context, s cli.Streams, o kvevents.SubscriberOptions) error {
	ending, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &tail{flags: f, end: end, out: bufio.NewWriter(s.Out), left: f.count}
	if f.count == 0 {
		t.left = -1
	}
	if f.length > 0 {
		timer := time.AfterFunc(f.length, func() { end(errEnough) })
		defer timer.Stop()
	}
	o.Observe = t.showBatch
	o.Warn = func(text string) { fmt.Fprintln(s.Err, cli.FormatNote(text)) }
	x := kvevents.NewIndex(nil)
	o.Sink = x.Feed(0)
	sub, err := kvevents.Subscribe(o)
	if err != nil {
		return err
	}
	<-ending.Done()
	sub.Close()
	sum := sub.Stats()
	fmt.Fprintf(s.Err, "%d events in %d live and %d replayed batches and %d snapshots; %d gaps, %d not filled; %d blocks cached\n",
		t.events, sum.Live, sum.Replayed, sum.Snapshots, sum.Gaps, sum.Incomplete, x.Size())
	if cause := context.Cause(ending); cause != errEnough {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return cause
	}
	return nil
}

// showBatch prints a batch.
func (t *tail) showBatch(r kvevents.Received) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.events += len(r.Batch.Events)
	var err error
	for i := range r.Batch.Events {
		if err == nil && !t.flags.quiet {
			err = t.showEvent(&r, &r.Batch.Events[i])
		}
	}
	if err == nil {
		err = t.out.Flush()
	}
	if t.left--; t.left == 0 {
		err = errEnough
	}
	if err != nil {
		t.over = true
		t.end(err)
	}
}

// tailLine is a line of the output with --json.
type tailLine struct {
	Sequence     uint64   `json:"sequence"`
	Source       string   `json:"source"` // live, replay or snapshot
	Time         float64  `json:"time"`   // time of the batch, in seconds since the epoch
	Rank         *int32   `json:"rank"`
	Type         string   `json:"type"`
	Blocks       []string `json:"blocks,omitempty"`
	Parent       string   `json:"parent,omitempty"`
	TokensHashes []string `json:"tokens_hashes,omitempty"`
	Tokens       []uint32 `json:"token_ids,omitempty"`
	BlockSize    int      `json:"block_size,omitempty"`
	Medium       string   `json:"medium,omitempty"`
	LoRA         string   `json:"lora_name,omitempty"`
}

func (t *tail) showEvent(r *kvevents.Received, e *kvevents.Event) error {
	if t.flags.json {
		return t.showLine(r, e)
	}
	rank := "-"
	if r.Batch.HasRank {
		rank = fmt.Sprint(r.Batch.Rank)
	}
	if _, err := fmt.Fprintf(t.out, "%d %v rank %s %v", r.Sequence, r.Origin, rank, e.Type()); err != nil {
		return err
	}
	if e.HasParent {
		fmt.Fprintf(t.out, " after %016x", e.Parent)
	}
	if e.Medium != "" {
		fmt.Fprintf(t.out, " in %s", e.Medium)
	}
	for _, b := range e.Blocks {
		fmt.Fprintf(t.out, " %016x", b)
	}
	return t.out.WriteByte('\n')
}

func (t *tail) showLine(r *kvevents.Received, e *kvevents.Event) error {
	l := tailLine{
		Sequence: r.Sequence, Source: r.Origin.String(), Time: r.Batch.Time, Type: e.Type(),
		Blocks: formatHashes(e.Blocks), TokensHashes: formatHashes(e.TokensHashes), Tokens: e.Tokens,
		BlockSize: e.BlockTokens, Medium: e.Medium, LoRA: e.LoRA,
	}
	if r.Batch.HasRank {
		l.Rank = &r.Batch.Rank
	}
	if e.HasParent {
		l.Parent = fmt.Sprintf("%016x", e.Parent)
	}
	return json.NewEncoder(t.out).Encode(l)
}

func formatHashes(hashes []uint64) []string {
	var out []string
	for _, h := range hashes {
		out = append(out, fmt.Sprintf("%016x", h))
	}
	return out
}
