module github.com/replay-llm/replay/tools

go 1.26.0

require (
	github.com/replay-llm/replay v0.0.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
)

replace github.com/replay-llm/replay => ../

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/parquet-go/parquet-go v0.32.0 // indirect
	github.com/schollz/progressbar/v3 v3.19.1 // indirect
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/term v0.47.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)

require (
	github.com/expr-lang/expr v1.17.8 // indirect
	github.com/goccy/go-json v0.12.0 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/pierrec/lz4/v4 v4.1.21 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/parquet-go/bitpack v1.0.0 // indirect
	golang.org/x/net v0.61.0
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
)
