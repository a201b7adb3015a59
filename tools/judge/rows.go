package main

import (
	"encoding/csv"
	"io"
	"os"
	"strconv"
)

// writeRows writes outcomes to a CSV file.
func writeRows(path string, all []Outcome) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := encodeRows(f, all); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// encodeRows writes one CSV line per outcome, in order. Times are in ms, and the parts are those of mean TPOT.
func encodeRows(out io.Writer, all []Outcome) error {
	w := csv.NewWriter(out)
	head := []string{
		"engine", "release", "model", "gpu", "weights", "input", "output", "concurrency", "tp", "dp", "moe_tp", "ep", "source",
		"ttft_ms", "simulated_ttft_ms", "tpot_ms", "simulated_tpot_ms", "decode_ms", "prompts_ms", "passes_with_prompts", "passes", "requests",
	}
	if err := w.Write(head); err != nil {
		return err
	}
	for i := range all {
		o := &all[i]
		line := []string{o.Engine, o.Release, listModels()[o.Model].name, o.gpu(), o.Kind.Weights}
		for _, n := range []int{o.Input, o.Output, o.Concurrency, o.TP, o.DP, o.MoETP, o.EP} {
			line = append(line, strconv.Itoa(n))
		}
		line = append(line, o.Source)
		for _, ms := range []float64{
			o.TTFT, o.SimulatedTTFT, o.TPOT, o.SimulatedTPOT, o.parts.plain, o.parts.prompts, o.parts.mixed, o.parts.passes, o.parts.requests,
		} {
			line = append(line, strconv.FormatFloat(ms, 'g', 6, 64))
		}
		if err := w.Write(line); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
