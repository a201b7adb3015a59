package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/scheduler/hardware"
)

// turns are the flags for a closed loop on a server of the user.
type turns struct {
	path, hardware        string
	inFlight, page, seats int
}

func (t *turns) bindFlags(fs *flag.FlagSet) {
	fs.StringVar(&t.path, "turns", "", "replace all other checks by a closed loop on an SGLang server: a `file` of JSON lines with isl, osl, ttft_ms, tpot_ms and e2e_ms, in order of completion")
	fs.StringVar(&t.hardware, "hardware", "", "its GPU and model, as gb300/kimi-k2.5?tp=4")
	fs.IntVar(&t.inFlight, "in-flight", 1, "turns at once")
	fs.IntVar(&t.page, "page", 1, "its --page-size")
	fs.IntVar(&t.seats, "seats", 128, "its --max-running-requests")
}

// judge prints the row of the server, by SGLang's rules and by the reference's rules.
func (t *turns) judge(out io.Writer) error {
	s := &server{
		name: t.path, path: t.path, engine: sglangEngine, hardware: t.hardware, pods: 1, inFlight: t.inFlight, unbounded: true,
		change: func(f *hardware.Fit) { f.SGLang, f.BlockTokens, f.MaxSeqs, f.MaxBatch = true, t.page, t.seats, 8192 },
	}
	if least := min(t.inFlight, t.page, t.seats); least < 1 {
		return fmt.Errorf("-in-flight %d, -page %d, -seats %d: must be at least 1", t.inFlight, t.page, t.seats)
	}
	var err error
	if s.requests, err = s.read(""); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "accuracy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sheets, _, err := judgeSheets([]*server{s}, dir)
	if err == nil {
		all := accuracy.Errors{Sheets: sheets}
		fmt.Fprint(out, all.SheetsTable())
	}
	return err
}
