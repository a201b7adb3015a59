package options

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/files"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/router/policy"
)

// policyFlag is the name of the flag for a router policy file.
const policyFlag = "router-policy"

// routerFlag is a flag for the name of a router, or for the path of a policy file.
type routerFlag struct{ cli.Choice }

// Set sets the name or the path.
func (r *routerFlag) Set(text string) error {
	if IsPolicyFile(text) {
		r.Value = text
		return nil
	}
	return r.Choice.Set(text)
}

// IsPolicyFile reports whether the value of --router is a path of a policy file.
func IsPolicyFile(router string) bool {
	ext := filepath.Ext(router)
	return ext == ".yaml" || ext == ".yml"
}

// policyPath returns the path of the router policy file, or "".
func (c *cluster) policyPath() string {
	if c.policy == "" && IsPolicyFile(c.Router.Value) {
		return c.Router.Value
	}
	return c.policy
}

// fillPolicy sets a router with the policy in a file in spec.
func (c *cluster) fillPolicy(spec *replay.Spec, path string) error {
	flag := policyFlag
	if c.policy == "" {
		flag = "router"
	} else if c.Changed("router") {
		return c.Only("router", "without --"+policyFlag)
	}
	switch {
	case c.picker != "":
		return c.Only(pickerFlag, "without --"+flag+": its file sets how requests are routed")
	case c.IsCluster():
		return c.Only(flag, "without --mode cluster, where --router NAME sets the router")
	}
	text, err := readPolicy(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	spec.Router = text
	return nil
}

// readPolicy reads a router policy file.
func readPolicy(path string) (*policy.Text, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return files.ParsePolicy(path, text)
}
