package main

import (
	"bytes"
	"slices"
	"strings"
	"text/template"
)

// sourceURL is the URL of the repository.
const sourceURL = "https://github.com/replay-llm/replay"

// formulaText is the template of a Homebrew formula. The fields of the template are those of formula.
const formulaText = `# Made by make release.
class Replay < Formula
  desc "Simulate LLM inference clusters on recorded or synthetic workloads"
  homepage "{{.Source}}"
  version "{{.Version}}"
  license "Apache-2.0"
{{range $system, $archives := .Systems}}
  on_{{$system}} do
{{- range $archives}}
    on_{{.Processor}} do
      url "{{.URL}}"
      sha256 "{{.Sum}}"
    end
{{- end}}
  end
{{end}}
  def install
    bin.install "replay", "replay-live"
    man1.install Dir["man/*.1"]
    pkgshare.install "explorer.html"
    %w[replay replay-live].each do |name|
      bash_completion.install "completions/#{name}.bash" => name
      zsh_completion.install "completions/#{name}.zsh" => "_#{name}"
      fish_completion.install "completions/#{name}.fish"
    end
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/replay version")
  end
end
`

// formula contains the fields of formulaText.
type formula struct {
	Source, Version string
	Systems         map[string][]formulaArchive
}

type formulaArchive struct{ Processor, URL, Sum string }

// makeFormula returns the formula that installs the archives of macOS and Linux.
func (r *release) makeFormula(sums []checksum) ([]byte, error) {
	f := formula{Source: sourceURL, Version: r.version, Systems: make(map[string][]formulaArchive)}
	for _, p := range r.platforms {
		system := map[string]string{"darwin": "macos", "linux": "linux"}[p.system]
		processor := map[string]string{"amd64": "intel", "arm64": "arm"}[p.processor]
		i := slices.IndexFunc(sums, func(s checksum) bool { return s.name == r.archiveName(p) })
		if system == "" || i < 0 {
			continue
		}
		url := sourceURL + "/releases/download/v" + strings.ReplaceAll(r.version, "+", "%2B") + "/" + r.archiveName(p)
		f.Systems[system] = append(f.Systems[system], formulaArchive{processor, url, sums[i].sum})
	}
	t, err := template.New("replay.rb").Parse(formulaText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, f)
	return b.Bytes(), err
}
