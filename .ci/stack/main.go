// Stack checks examples/stack with the libraries of the programs that read its files: BuildKit's linter, the loader
// of Docker Compose, Prometheus' own, kustomize, and the types of Kubernetes. Stack is a separate module, so that the
// programs of the project do not depend on these libraries.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/opencontainers/go-digest"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	_ "github.com/prometheus/prometheus/discovery/dns" // dns_sd_configs
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: stack DIR")
		os.Exit(2)
	}
	if err := checkStack(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// checkStack returns all errors of the files in dir.
func checkStack(ctx context.Context, dir string) error {
	return errors.Join(
		checkDockerfile(ctx, filepath.Join(dir, "Dockerfile")),
		checkCompose(ctx, filepath.Join(dir, "compose.yaml")),
		checkScraping(filepath.Join(dir, "prometheus.yaml")),
		checkScraping(filepath.Join(dir, "kubernetes", "scrape.yaml")),
		checkManifests(dir),
	)
}

// checkDockerfile returns the errors and warnings of BuildKit.
func checkDockerfile(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	source := llb.NewSourceMap(nil, path, "dockerfile", text)
	source.Definition = &llb.Definition{}
	found, err := dockerfile2llb.DockerfileLint(ctx, text, dockerfile2llb.ConvertOpt{SourceMap: source, MetaResolver: nothingOfImages{}})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var all []error
	if found.Error != nil {
		all = append(all, fmt.Errorf("%s: %s", path, found.Error.Message))
	}
	for _, w := range found.Warnings {
		all = append(all, fmt.Errorf("%s: %s: %s", path, w.RuleName, w.Detail))
	}
	return errors.Join(all...)
}

// nothingOfImages resolves every image with a version for this platform, without a request to a registry.
type nothingOfImages struct{}

func (nothingOfImages) ResolveImageConfig(_ context.Context, image string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	if err := checkImage("FROM or COPY --from", image); err != nil {
		return "", "", nil, err
	}
	described := fmt.Sprintf(`{"os":"linux","architecture":%q,"config":{},"rootfs":{}}`, runtime.GOARCH)
	return image, digest.FromString(image), []byte(described), nil
}

// checkCompose returns an error for files that Docker Compose rejects, a service without a health check, an image
// without a version, and a missing mounted file.
func checkCompose(ctx context.Context, path string) error {
	options, err := cli.NewProjectOptions([]string{path}, cli.WithEnv([]string{"REPLAY_LINK_TOKEN=a-token-of-no-use"}))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	project, err := options.LoadProject(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var all []error
	for name, s := range project.Services {
		if s.HealthCheck == nil || len(s.HealthCheck.Test) == 0 {
			all = append(all, fmt.Errorf("%s: %s has no health check", path, name))
		}
		if s.Build == nil {
			all = append(all, checkImage(path+": "+name, s.Image))
		}
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); v.Type == "bind" && err != nil {
				all = append(all, fmt.Errorf("%s: %s: %w", path, name, err))
			}
		}
	}
	return errors.Join(all...)
}

// checkImage returns an error for an image without a version.
func checkImage(place, image string) error {
	if i := strings.LastIndexByte(image, ':'); i < 0 || image[i:] == ":latest" || strings.Contains(image[i:], "/") {
		return fmt.Errorf("%s: image %q has no version", place, image)
	}
	return nil
}

// checkScraping returns the errors of Prometheus for the file.
func checkScraping(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := config.Load(string(text), promslog.NewNopLogger()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
