package vllm

import (
	"github.com/replay-llm/replay/scheduler/vllm/config"
	"github.com/replay-llm/replay/scheduler/vllm/rules"
	"github.com/replay-llm/replay/scheduler/vllm/windows"
)

// Types of the configuration of an engine.
type (
	Config      = config.Config
	Settings    = config.Settings
	Rules       = rules.Rules    // selects, rule by rule, between vLLM's own scheduler and the reference simulator
	Windows     = windows.Groups // groups of KV blocks of a model with layers that do not attend to all earlier tokens
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
