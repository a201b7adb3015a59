package machines

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/replay/deployment"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler/hardware"
)

// initFlags are the flags of init.
type initFlags struct{ gpu, model, from, out string }

// NewInitCommand returns the command that writes a deployment file.
func NewInitCommand(s cli.Streams) *cobra.Command {
	f := &initFlags{}
	cmd := &cobra.Command{
		Use:   "init [--from FILE]",
		Short: "Write a deployment file: GPU, model, parallelism and engine",
		Long: `Write a commented deployment file for --deployment. --from reads settings from
the start-up log of a server, from its command or from its Kubernetes manifest.
A log of TensorRT-LLM has only the KV blocks. Fill in missing settings, such as
the GPU.`,
		Example: `  replay init --gpu h100 --model llama-3.1-70b --out llama.yaml
  replay init --from vllm.log --gpu h100 --out pod.yaml
  replay trace requests.jsonl --deployment pod.yaml --workers 4`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error { return f.write(s) },
	}
	return cli.BindOwn(cmd, func(fs *pflag.FlagSet) {
		fs.StringVar(&f.from, "from", "", "`file` to read settings from: start-up log of a server, or the shell script or Kubernetes manifest that starts it")
		fs.StringVar(&f.gpu, "gpu", "", "GPU of the workers, by `name`")
		fs.StringVar(&f.model, "model", "", "model of the workers, by `name` or the path of its config.json")
		fs.StringVar(&f.out, "out", "", "`file` to write, which must not exist (default: standard output)")
	})
}

// write writes the deployment file.
func (f *initFlags) write(s cli.Streams) error {
	known, usual, title := map[string]string{}, map[string]string(nil), "A deployment"
	if f.from != "" {
		var err error
		if known, title, err = f.readSource(); err != nil {
			return err
		}
	}
	if f.gpu != "" {
		g, err := hardware.FindGPU(f.gpu, nil)
		if err != nil {
			return cli.WrongUsage(err)
		}
		known["gpu"] = g.Name
		if known["engine"] != "sglang" {
			usual = engines.ServerFlags(known["scheduler-profile"], &g)
		}
	}
	if f.model != "" {
		known["model"] = f.model
	}
	if model := known["model"]; model != "" {
		m, err := hardware.FindModel(model)
		if err != nil {
			return cli.WrongUsage(err)
		}
		if m.Source != model {
			known["model"] = m.Name
		}
	}
	settings := deployment.Fill(deployment.Settings(), known, usual)
	if f.out == "" {
		return deployment.Write(s.Out, title, settings)
	}
	file, err := os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(deployment.Write(file, title, settings), file.Close())
}

// readSource reads the settings of a server from its log, from its start command, or from a manifest that contains
// this command.
func (f *initFlags) readSource() (known map[string]string, title string, err error) {
	log, err := f.readLog()
	switch {
	case errors.As(err, new(*deployment.NoServerError)):
		known, engine, started := f.readStart()
		if errors.As(started, new(*noCommandError)) {
			if known := f.readBlocks(); known != nil {
				return known, "A deployment, as TensorRT-LLM logged its KV blocks", nil
			}
			return nil, "", fmt.Errorf("%s: %w", f.from, err)
		}
		return known, "A deployment, as " + engine + " is started", started
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", f.from, err)
	case log.SGLang != nil:
		return log.Known, "A deployment, as SGLang logged it", nil
	}
	log.Known["scheduler-profile"] = engines.NearestRules(log.Release)
	return log.Known, "A deployment, as vLLM " + log.Release + " logged it", nil
}

// readBlocks returns the KV blocks in the log of a TensorRT-LLM server, nil if there are none.
func (f *initFlags) readBlocks() map[string]string {
	file, err := os.Open(f.from)
	if err != nil {
		return nil
	}
	defer file.Close()
	return deployment.ReadTRTLLMLog(file)
}

// readLog reads the log of the server.
func (f *initFlags) readLog() (*deployment.Log, error) {
	file, err := os.Open(f.from)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer file.Close()
	return deployment.ReadLog(file)
}
