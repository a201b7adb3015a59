package options

import (
	"fmt"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/endpointpicker"
	"github.com/replay-llm/replay/replay"
)

// pickerFlag is the name of the flag for a file of an endpoint picker.
const pickerFlag = "endpoint-picker"

// fillPicker lets the router choose as the file of an endpoint picker says.
func (o *Options) fillPicker(spec *replay.Spec) error {
	switch name := o.FirstChanged(append(RouterFlags(), "router-config", "router")...); {
	case name != "":
		return cli.Usagef("--%s: without --%s, whose file says how requests are routed", name, pickerFlag)
	case o.IsLive() || o.IsCluster():
		return cli.Usagef("--%s: only on the logical clock: nobody reads the metrics of workers in real time", pickerFlag)
	case o.TwoPools():
		return cli.Usagef("--%s: only with workers that prefill and decode", pickerFlag)
	}
	p, err := endpointpicker.Read(o.Cluster.picker, o.Cluster.skip...)
	if err != nil {
		return fmt.Errorf("--%s: %w", pickerFlag, err)
	}
	spec.Router = p
	return nil
}
