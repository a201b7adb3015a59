package generate

import (
	"io"
	"math"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
)

// A setting above its limit is an error that contains the limit. Otherwise all generated times are finite.
func TestSettingsHaveLimits(t *testing.T) {
	for _, text := range []string{
		"1e308", "fixed:value=1e308", "uniform:min=1,max=1e308", "normal:mean=1e308,sd=1", "normal:mean=1,sd=1e308", "normal:mean=-1e308,sd=1",
		"lognormal:mean=1e308,sigma=1", "lognormal:mean=5,sigma=1e155", "lognormal:median=1e-320,sigma=1", "exponential:mean=1e308",
		"gamma:mean=5,cv=1e155", "gamma:mean=1e308", "gamma:mean=1e-320", "exponential:mean=5,max=1e308", "uniform:min=NaN,max=5", "uniform:min=1,max=Inf",
	} {
		if _, err := parseLaw(text); err == nil || !strings.Contains(err.Error(), "must be ") {
			t.Errorf("%s: %v", text, err)
		}
	}
	class := Class{Weight: 1, Input: "5", Output: "5"}
	for name, c := range map[string]Config{
		"gamma": {Arrivals: "gamma:cv=1e155", Rate: 5}, "ramp": {Arrivals: "ramp:to=1e308", Rate: 5, Duration: 1000}, "diurnal": {Arrivals: "diurnal:period=1e308", Rate: 5},
		"peak": {Arrivals: "diurnal:peak=1e300", Rate: 5}, "users": {Arrivals: "users:count=3,start=1e308"}, "slow": {Arrivals: "poisson", Rate: 1e-300},
		"fast": {Arrivals: "poisson", Rate: 1e308}, "far": {Arrivals: "constant", Rate: 1e-9},
	} {
		c.Block, c.Requests, c.Classes = 16, 100, []Class{class}
		if err := drain(t, c); err == nil || !strings.Contains(err.Error(), "must be ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	class.Turns, class.Think = "2", "fixed:value=2e10"
	if err := drain(t, Config{Arrivals: "poisson", Rate: 5, Block: 16, Requests: 5, Classes: []Class{class}}); err == nil {
		t.Error("a delay of 634 years")
	}
	class.Turns, class.Think, class.Prefix = "", "", "groups:count=3,tokens=10,zipf=1e308"
	if err := drain(t, Config{Arrivals: "poisson", Rate: 5, Block: 16, Requests: 5, Classes: []Class{class}}); err == nil {
		t.Error("zipf=1e308")
	}
}

// drain generates all requests of a configuration and checks that their times are finite.
func drain(t *testing.T, c Config) error {
	g, err := New(c)
	if err != nil {
		return err
	}
	var r formats.Record
	for {
		switch err := g.Next(&r); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case math.IsNaN(r.At+r.Delay) || math.IsInf(r.At+r.Delay, 0):
			t.Errorf("arrives at %v, after %v", r.At, r.Delay)
			return nil
		}
	}
}
