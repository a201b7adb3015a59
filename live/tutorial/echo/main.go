package main

import (
	"fmt"
	"os"

	"github.com/replay-llm/replay/live/engine"
)

func main() {
	e, config, err := FromArgs(os.Args[1:])
	if err == nil {
		err = engine.Run(e, config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}
