// Gateways sends requests through gateways to replay-live servers, and compares the routing policies of gateways with
// those of package router/policy. To compare, the program starts
// replay-live vllm or sglang servers behind vllm-router or sglang-router, and sends requests one after the other. The
// program compares each choice of a worker with the choice of the policy. The exit code is 1 if a request fails or a
// choice differs.
//
//	go run ./tools/gateways -programs bin/gateways -live bin/replay-live
//
// A proxy in front of each server reports the requests. The proxy delays some answers, so that workers have different
// loads. For the gateway, a prompt is a text. For the policy, each of its characters is a token.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	programs := flag.String("programs", "bin/gateways", "`directory` of the virtual environments vllm-router, sglang-router and smg")
	live := flag.String("live", "bin/replay-live", "`program` of the servers")
	requests := flag.Int("n", 2000, "`number` of requests of each comparison")
	seed := flag.Uint64("seed", 1, "first `seed` of the prompts")
	seeds := flag.Int("seeds", 2, "`number` of seeds that each comparison is made with")
	only := flag.String("only", "", "compare cases alone that have this `text` in their names")
	record := flag.String("record", "", "write what the gateways chose to `DIR`, a file for each case")
	forwards := flag.Int("forward", 400, "`number` of requests through each gateway, without a comparison")
	flag.Parse()
	differ := false
	for _, g := range listGateways() {
		program, err := g.find(*programs)
		if !strings.Contains(g.name, *only) {
			continue
		}
		if err != nil {
			fmt.Printf("%-44s skipped: %v\n", g.name, err)
			continue
		}
		failed, err := g.forward(program, *live, *forwards)
		if err != nil {
			fmt.Fprintf(os.Stderr, "gateways: %s: %v\n", g.name, err)
			os.Exit(1)
		}
		fmt.Printf("%-44s %d requests, %d failed\n", g.name, *forwards, failed)
		differ = differ || failed > 0
	}
	for _, c := range listCases() {
		if !strings.Contains(c.name(), *only) {
			continue
		}
		program := filepath.Join(*programs, c.program, "bin", c.program)
		if _, err := os.Stat(program); err != nil {
			fmt.Printf("%-44s skipped: no %s\n", c.name(), program)
			continue
		}
		var r *result
		for i := range *seeds {
			var err error
			if r, err = c.compare(program, *live, *requests, *seed+uint64(i)); err != nil {
				fmt.Fprintf(os.Stderr, "gateways: %s: %v\n", c.name(), err)
				os.Exit(1)
			}
			fmt.Printf("%-36s seed %d: %s\n", c.name(), *seed+uint64(i), r.tally())
			differ = differ || r.differ > 0
		}
		if r != nil && *record != "" && !c.draws {
			if err := r.write(filepath.Join(*record, c.file())); err != nil {
				fmt.Fprintln(os.Stderr, "gateways:", err)
				os.Exit(1)
			}
		}
	}
	if differ {
		os.Exit(1)
	}
}
