package row

import "time"

// Maximum shares of the reference's peak memory.
const (
	tenth = 0.1
	fifth = 0.2
	small = 1 / 3.5 // bound of rows with a peak below 40 MiB, of which the program itself is the largest part
)

// All returns the rows in the order of the table.
func All() []Row {
	return append(conversationRows(), append(syntheticRows(), otherRows()...)...)
}

func conversationRows() []Row {
	least := func(simulation, command float64) Bounds {
		return Bounds{Simulation: simulation, Command: command, Memory: tenth}
	}
	rows := []Row{
		{Title: "conversation, 1 worker, block 512", BlockTokens: 512, Workers: 1, Bounds: least(60, 40)},
		{Title: "conversation, 8 workers, round robin, block 512", BlockTokens: 512, Workers: 8, Bounds: least(100, 60)},
		{Title: "conversation, 8 workers, KV router, block 512", BlockTokens: 512, Workers: 8, KV: true, Bounds: least(80, 60)},
		{Title: "conversation, 8 workers, KV router, block 64", BlockTokens: 64, Workers: 8, KV: true, Bounds: least(60, 40)},
		{Title: "conversation, 8 workers, KV router, block 16", BlockTokens: 16, Workers: 8, KV: true, Bounds: least(40, 30)},
		{
			Title: "conversation, 4 prefill + 4 decode, KV router, block 512", BlockTokens: 512,
			Prefill: 4, Decode: 4, KV: true, Bounds: least(60, 40),
		},
	}
	for i := range rows {
		rows[i].Source, rows[i].Engine = Conversation, "vllm"
	}
	return rows
}

func syntheticRows() []Row {
	rows := []Row{
		{
			Title: "synthetic 131,072 of 1,024/128, 64 in flight, 1 worker", Requests: 131_072, Output: 128, InFlight: 64,
			Engine: "vllm", Workers: 1, Bounds: Bounds{Simulation: 30, Command: 20},
		},
		{
			Title: "synthetic 65,536 of 1,024/128, 64 in flight, 1 prefill + 2 decode", Requests: 65_536, Output: 128, InFlight: 64,
			Engine: "vllm", Prefill: 1, Decode: 2, Bounds: Bounds{Simulation: 30, Command: 20},
		},
		{
			Title: "synthetic 16,384 of 1,024/128, 64 in flight, SGLang", Requests: 16_384, Output: 128, InFlight: 64,
			Engine: "sglang", Blocks: endlessBlocks, Workers: 1, Bounds: Bounds{Simulation: 20, Command: 20},
		},
		{
			Title: "synthetic 4,096 of 1,024/2,048, 128 in flight, SGLang", Requests: 4_096, Output: 2_048, InFlight: 128,
			Engine: "sglang", Blocks: endlessBlocks, Workers: 1, Bounds: Bounds{Simulation: 40, Command: 30},
		},
	}
	for i := range rows {
		rows[i].Input, rows[i].BlockTokens, rows[i].Bounds.Memory = 1_024, 64, fifth
		if rows[i].Engine == "sglang" {
			rows[i].Bounds.Memory = small
		}
	}
	return rows
}

// endlessBlocks is a pool so large that the reference's SGLang never retracts a request. After a retraction some of
// its runs do not end.
const endlessBlocks = 200_000

func otherRows() []Row {
	return []Row{
		{
			Title: "sessions, 50,000 turns, 4 workers, KV router, 64 in flight", Source: Sessions, Requests: 50_000, InFlight: 64,
			Engine: "vllm", BlockTokens: 64, Workers: 4, KV: true, Bounds: Bounds{Simulation: 30, Command: 20, Memory: small},
		},
		{
			Title: "100 requests, start to answer", Source: Conversation, Requests: 100,
			Engine: "vllm", BlockTokens: 512, Workers: 1,
			Bounds: Bounds{Command: 5, CommandTime: 20 * time.Millisecond, Memory: small},
		},
	}
}
