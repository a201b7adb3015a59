package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// bill is a bill of materials in the JSON format of CycloneDX 1.6.
type bill struct {
	Format     string       `json:"bomFormat"`
	Spec       string       `json:"specVersion"`
	Version    int          `json:"version"`
	Metadata   metadata     `json:"metadata"`
	Components []component  `json:"components"`
	Depends    []dependency `json:"dependencies"`
}

type metadata struct {
	Time      string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PackageURL string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

// makeBill returns the bill of the modules in the programs of a platform, and of the Go release. The linker recorded
// the modules in the programs.
func (r *release) makeBill(p platform, programs []file) ([]byte, error) {
	whole := component{Type: "application", Ref: "release", Name: "replay", Version: r.version, Properties: []property{
		{"replay:commit", r.commit}, {"replay:platform", p.String()},
	}}
	all, depends := make(map[string]component), []dependency{}
	for _, f := range programs {
		info, err := buildinfo.Read(bytes.NewReader(f.data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		std := component{Type: "library", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
		std.PackageURL = "pkg:golang/std@" + std.Version
		uses := []component{std}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			uses = append(uses, component{
				Type: "library", Name: m.Path, Version: m.Version, PackageURL: "pkg:golang/" + strings.ToLower(m.Path) + "@" + strings.ReplaceAll(m.Version, "+", "%2B"),
				Properties: []property{{"go:sum", m.Sum}},
			})
		}
		d := dependency{Ref: f.name}
		for _, c := range uses {
			c.Ref = c.PackageURL
			all[c.Ref] = c
			d.On = append(d.On, c.Ref)
		}
		slices.Sort(d.On)
		depends = append(depends, d)
		all[f.name] = component{Type: "application", Ref: f.name, Name: f.name, Version: r.version}
	}
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{r.time.Format(time.RFC3339), whole}}
	top := dependency{Ref: whole.Ref}
	for _, c := range all {
		b.Components = append(b.Components, c)
	}
	for _, f := range programs {
		top.On = append(top.On, f.name)
	}
	b.Depends = append([]dependency{top}, depends...)
	slices.SortFunc(b.Components, func(x, y component) int { return cmp.Compare(x.Ref, y.Ref) })
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}
