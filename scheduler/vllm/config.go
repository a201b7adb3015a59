package vllm

import (
	"github.com/replay-llm/replay/scheduler/vllm/config"
	"github.com/replay-llm/replay/scheduler/vllm/rules"
	"github.com/replay-llm/replay/scheduler/vllm/windows"
)

// What an engine is made with.
type (
	Config      = config.Config
	Settings    = config.Settings
	Rules       = rules.Rules    // chooses, rule by rule, between vLLM's own scheduler and the reference simulator
	Windows     = windows.Groups // the groups of KV blocks of a model with layers that do not attend to every token before one
	Warmup      = config.Warmup
	Speculation = config.Speculation
	Preemption  = config.Preemption
	Policy      = config.Policy
)

// Names and values of settings.
const (
	SeqsKey    = config.SeqsKey
	TokensKey  = config.TokensKey
	Unlimited  = config.Unlimited
	LIFO       = config.LIFO
	FIFO       = config.FIFO
	FirstCome  = config.FirstCome
	ByPriority = config.ByPriority
)
