package sweepqueue

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/live/queue"
)

// newSweepStatusCommand returns the command that shows how far a sweep is.
func newSweepStatusCommand(s cli.Streams) *cobra.Command {
	var form cli.Choice
	return onSweep(&cobra.Command{
		Use:     "status ID",
		Short:   "Say how far a sweep is",
		Example: "  replay sweep status 0123456789ab --nats nats://host:4222",
	}, func(ctx context.Context, q *queue.Queue, m *queue.Manifest) error {
		st, err := q.Status(ctx, m)
		switch {
		case err != nil:
			return err
		case form.Value == "json":
			return cli.WriteJSON(s.Out, statusDocument(st))
		default:
			return writeStatus(s.Out, st)
		}
	}, cli.NewGroup("Output", func(fs *pflag.FlagSet) { cli.BindForm(fs, &form) }))
}

// writeStatus writes how far a sweep is for people.
func writeStatus(out io.Writer, st *queue.Status) error {
	eta := "unknown"
	if st.ETA >= 0 {
		eta = st.ETA.Round(100 * time.Millisecond).String()
	}
	fmt.Fprintf(out, "cells %d\ndone %d\nrunning %d\npending %d\ndead %d\neta %s\n",
		st.Cells, st.Done, st.Running, st.Pending, st.Dead, eta)
	for _, d := range st.GivenUp {
		fmt.Fprintf(out, "cell %d dead after tries: %d: %s\n", d.Cell, d.Tries, d.Reason)
	}
	return nil
}

// statusDocument returns how far a sweep is for programs.
func statusDocument(st *queue.Status) map[string]any {
	d := map[string]any{
		"cells": st.Cells, "done": st.Done, "running": st.Running, "pending": st.Pending, "dead": st.Dead,
		"eta_s": nil, "given_up": append([]queue.GivenUp{}, st.GivenUp...),
	}
	if st.ETA >= 0 {
		d["eta_s"] = st.ETA.Seconds()
	}
	return d
}
