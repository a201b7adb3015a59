package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cmd/replay-live/cluster"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
)

// NewStackCommand returns the commands for etcd and NATS.
func NewStackCommand(s cli.Streams) *cobra.Command {
	cmd := cli.BindOwn(&cobra.Command{
		Use:   "stack",
		Short: "Run etcd and NATS, and list registered workers",
		Args:  cobra.ArbitraryArgs,
		RunE:  cli.WantCommand,
	}, func(*pflag.FlagSet) {})
	cmd.AddCommand(newStackUpCommand(s), newStackInstancesCommand(s))
	return cmd
}

func newStackUpCommand(s cli.Streams) *cobra.Command {
	var o stack.Options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run etcd and NATS in this process",
		Long: `Up runs an etcd server and a NATS server with JetStream in this process, and
prints their addresses as one line of JSON. It serves until SIGINT or SIGTERM,
and ends with exit code 0. With --data-dir, data is written to disk and later
runs continue with it; otherwise no data is kept.

The servers listen on loopback unless --host is set. Every client that can
connect can read and change all data: on other addresses set --nats-username,
--cert and --key, and --ca to require client certificates.`,
		Example: `  replay stack up
  replay stack up --etcd-port 2379 --nats-port 4222 --data-dir /var/lib/replay`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Username != "" {
				if o.Password = os.Getenv("NATS_AUTH_PASSWORD"); o.Password == "" {
					return cli.Usagef("--nats-username requires its password in $NATS_AUTH_PASSWORD")
				}
			}
			if (o.Cert == "") != (o.Key == "") || o.CA != "" && o.Cert == "" {
				return cli.Usagef("--cert=%s --key=%s --ca=%s: --cert and --key require each other, --ca requires both", o.Cert, o.Key, o.CA)
			}
			o.Insecure = o.Insecure || os.Getenv("REPLAY_LINK_INSECURE") == "1"
			if err := o.Check(); err != nil {
				return cli.Usagef("--host: %v", err)
			}
			return runStack(cmd.Context(), s, o)
		},
	}
	return cli.BindOwn(cmd, func(fs *pflag.FlagSet) { bindStack(fs, &o) })
}

func bindStack(fs *pflag.FlagSet, o *stack.Options) {
	fs.StringVar(&o.Dir, "data-dir", "", "`DIR` for data that later runs use")
	fs.Lookup("data-dir").DefValue = "a temporary directory"
	fs.StringVar(&o.Host, "host", "127.0.0.1", "`address` to listen at")
	fs.BoolVar(&o.Insecure, "insecure", false, "allow listening outside loopback without credentials: every client is accepted")
	fs.IntVar(&o.EtcdPort, "etcd-port", 0, "`port` of etcd; 0: any free port")
	fs.IntVar(&o.NATSPort, "nats-port", 0, "`port` of NATS; 0: any free port")
	fs.StringVar(&o.Cert, "cert", "", "`FILE` of the TLS certificate of both servers (PEM)")
	fs.StringVar(&o.Key, "key", "", "`FILE` of the key of --cert (PEM)")
	fs.StringVar(&o.CA, "ca", "", "`FILE` of the CA certificate for clients (PEM); clients then need a certificate")
	fs.StringVar(&o.Username, "nats-username", "", "user `name` that clients of NATS and etcd must give; the password is read from $NATS_AUTH_PASSWORD")
	cli.BindLogFormat(fs)
}

// StackAddresses is the line that stack up prints.
type StackAddresses struct {
	Etcd string `json:"etcd"`
	NATS string `json:"nats"`
}

func runStack(ctx context.Context, s cli.Streams, o stack.Options) (err error) {
	servers, err := stack.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Stop()) }()
	s.EndInOwnTime()
	if err := json.NewEncoder(s.Out).Encode(StackAddresses{servers.EtcdURL(), servers.NATSURL()}); err != nil {
		return err
	}
	broken, why := servers.Broken()
	select {
	case <-ctx.Done():
		return nil
	case <-broken:
		return why()
	}
}

func newStackInstancesCommand(s cli.Streams) *cobra.Command {
	f := &options.RuntimeFlags{}
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "instances [namespace.component.endpoint]",
		Short: "List the instances of an endpoint, a line of JSON each",
		Long: `Instances lists the workers that serve an endpoint, as callers discover them.
With --wait it waits for the first worker. If there is no worker it ends with
exit code 1.`,
		Example: `  replay stack instances dynamo.backend.generate --etcd http://127.0.0.1:2379`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := options.OnlyCalls(cmd.Flags()); err != nil {
				return err
			}
			config, err := cluster.Config(f)
			if err != nil {
				return err
			}
			if wait < 0 {
				return cli.Usagef("--wait=%v: must be 0 or more", wait)
			}
			name := "dynamo.backend.generate"
			if len(args) > 0 {
				name = args[0]
			}
			return listInstances(cmd.Context(), s, config, name, wait)
		},
	}
	return cli.BindGroups(cmd, cli.NewGroup("Instances", func(fs *pflag.FlagSet) {
		fs.DurationVar(&wait, "wait", 0, "maximum `time` to wait for the first instance")
	}), cli.NewGroup("Cluster", f.Bind, "etcd", "nats"))
}

func listInstances(ctx context.Context, s cli.Streams, config drt.Config, name string, wait time.Duration) (err error) {
	config.CallsOnly = true
	rt, err := drt.Connect(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close(context.WithoutCancel(ctx))) }()
	e, err := rt.ParseEndpoint(name)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	c, err := e.Client(ctx, drt.ClientOptions{})
	if err != nil {
		return err
	}
	ctx, release := context.WithTimeoutCause(ctx, wait, fmt.Errorf("none in %v", wait))
	defer release()
	all, err := c.WaitForInstances(ctx)
	if err != nil {
		return err
	}
	type line struct {
		Endpoint string        `json:"endpoint"`
		ID       string        `json:"id"`
		Reached  drt.Transport `json:"transport"`
	}
	out := json.NewEncoder(s.Out)
	for _, one := range all {
		if err := out.Encode(line{one.Name.String(), fmt.Sprintf("%x", one.ID), one.Transport}); err != nil {
			return err
		}
	}
	return nil
}
