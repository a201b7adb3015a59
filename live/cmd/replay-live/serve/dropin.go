package serve

import (
	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/dropin"
)

// newDropIn returns the command that translates the command line of an engine's own server to flags of this program,
// and runs it. of is the command that serves the engine.
func newDropIn(s cli.Streams, of *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "serve", Aliases: []string{"launch_server"}, Short: "Serve by the flags of the engine's own server", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			line, err := dropin.Translate(of.Name(), args, of.Flags())
			if err != nil {
				return err
			}
			for _, text := range line.Warnings {
				s.Warn(text)
			}
			s.EndInOwnTime()
			inner := s
			inner.Args = append([]string{of.Name()}, line.Args...)
			if code := s.Program.RunIn(cmd.Context(), inner); code != cli.ExitDone {
				return &cli.CodedError{Code: code}
			}
			return nil
		},
	}
}
