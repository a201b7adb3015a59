package trtllm

// gate says whether ranks compute prompts in the pass that they plan.
type gate struct{ open bool }
