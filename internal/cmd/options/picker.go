package options

import (
	"fmt"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/endpointpicker"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engines"
)

// pickerFlag is the name of the flag for an endpoint picker configuration.
const pickerFlag = "endpoint-picker"

// fillPicker sets a router with the configuration of an endpoint picker in spec.
func (o *Options) fillPicker(spec *replay.Spec) error {
	switch name := o.FirstChanged(append(RouterFlags(), "router-config", "router")...); {
	case name != "":
		return cli.Usagef("--%s: without --%s: its file sets how requests are routed", name, pickerFlag)
	case o.IsLive() || o.IsCluster():
		return cli.Usagef("--%s: only on the logical clock: no metrics of workers are read in real time", pickerFlag)
	}
	r, err := endpointpicker.Read(o.Cluster.picker, o.Cluster.skip...)
	switch {
	case err != nil:
		return fmt.Errorf("--%s: %w", pickerFlag, err)
	case r.Split != nil && !o.TwoPools():
		return cli.Usagef("--%s: profiles of prefill and decode workers require --prefill-workers and --decode-workers", pickerFlag)
	case r.Split == nil && o.TwoPools():
		return cli.Usagef("--%s: prefill and decode workers require a file with a profile for each and a disagg-profile-handler", pickerFlag)
	}
	spec.Router = r.Picker
	if r.Split == nil {
		return nil
	}
	return o.fillSplit(spec, r.Split)
}

// fillSplit sets the rule that selects prompts for prefill workers. Decode workers are chosen before prefill.
func (o *Options) fillSplit(spec *replay.Spec, s *endpointpicker.Split) error {
	if name := o.FirstChanged("pd-threshold", "pd-when", "decode-chosen"); name != "" {
		return cli.Usagef("--%s and --%s are mutually exclusive: the file sets which prompts go to prefill workers", name, pickerFlag)
	}
	if spec.PD == nil {
		spec.PD = new(replay.PD)
	}
	p := spec.PD
	switch p.DecodeChosen = engines.BeforePrefill; {
	case s.Prompt > s.Uncached:
		p.When = fmt.Sprintf("request.input_tokens >= %d and request.input_tokens - cached_tokens >= %d", s.Prompt, s.Uncached)
	case s.Uncached > 0:
		n := s.Uncached - 1
		p.Threshold = &n
	}
	return nil
}
