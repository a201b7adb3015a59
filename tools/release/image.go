package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// imagePlatform contains the image content for one platform.
type imagePlatform struct {
	platform
	programs []file
}

// Media types of the Open Container Initiative's image format.
const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor identifies a part of an image by its digest.
type descriptor struct {
	Type        string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	Schema    int               `json:"schemaVersion"`
	Type      string            `json:"mediaType"`
	Config    *descriptor       `json:"config,omitempty"`
	Layers    []descriptor      `json:"layers,omitempty"`
	Manifests []descriptor      `json:"manifests,omitempty"`
	Notes     map[string]string `json:"annotations,omitempty"`
}

// imageConfig configures the containers of the image.
type imageConfig struct {
	Created      string      `json:"created"`
	Architecture string      `json:"architecture"`
	OS           string      `json:"os"`
	Config       containerOf `json:"config"`
	Root         rootOf      `json:"rootfs"`
	History      []history   `json:"history"`
}

type containerOf struct {
	User       string            `json:"User"`
	Env        []string          `json:"Env"`
	Entrypoint []string          `json:"Entrypoint"`
	Cmd        []string          `json:"Cmd"`
	Directory  string            `json:"WorkingDir"`
	Labels     map[string]string `json:"Labels"`
}

type rootOf struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created string `json:"created"`
	By      string `json:"created_by"`
}

// layout collects the files of an image layout.
type layout struct {
	files []file
	known map[string]bool
}

// addBlob adds a part and returns its descriptor.
func (l *layout) addBlob(kind string, data []byte) descriptor {
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	if !l.known[sum] {
		l.known[sum] = true
		l.files = append(l.files, file{name: "blobs/sha256/" + sum, data: data})
	}
	return descriptor{Type: kind, Digest: "sha256:" + sum, Size: len(data)}
}

// addJSON adds a JSON document as a part.
func (l *layout) addJSON(kind string, value any) (descriptor, error) {
	data, err := json.Marshal(value)
	return l.addBlob(kind, data), err
}

// makeImage returns an image layout as a tar archive. The image contains only the programs and the folders tmp and
// work.
func (r *release) makeImage(platforms []imagePlatform) ([]byte, error) {
	l := &layout{known: make(map[string]bool)}
	labels := map[string]string{
		"org.opencontainers.image.title":    "replay",
		"org.opencontainers.image.version":  r.version,
		"org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.created":  r.time.Format(time.RFC3339),
		"org.opencontainers.image.source":   sourceURL,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	index := manifest{Schema: 2, Type: indexType, Notes: labels}
	for _, p := range platforms {
		d, err := r.addPlatform(l, p, labels)
		if err != nil {
			return nil, err
		}
		index.Manifests = append(index.Manifests, d)
	}
	whole, err := l.addJSON(indexType, index)
	if err != nil {
		return nil, err
	}
	whole.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version}
	top, err := json.Marshal(manifest{Schema: 2, Type: indexType, Manifests: []descriptor{whole}})
	if err != nil {
		return nil, err
	}
	files := append([]file{{name: "oci-layout", data: []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {name: "index.json", data: top}}, sortFiles(l.files)...)
	var b bytes.Buffer
	err = writeTar(&b, "", files, r.time)
	return b.Bytes(), err
}

// addPlatform adds the layer, the configuration and the manifest of a platform.
func (r *release) addPlatform(l *layout, p imagePlatform, labels map[string]string) (descriptor, error) {
	var plain, packed bytes.Buffer
	if err := writeTar(&plain, "", append(sortFiles(p.programs), file{name: "tmp/"}, file{name: "work/"}), r.time); err != nil {
		return descriptor{}, err
	}
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return descriptor{}, err
	}
	if _, err := z.Write(plain.Bytes()); err != nil {
		return descriptor{}, err
	}
	if err := z.Close(); err != nil {
		return descriptor{}, err
	}
	at := r.time.Format(time.RFC3339)
	config, err := l.addJSON(configType, imageConfig{
		Created: at, Architecture: p.processor, OS: p.system,
		Config: containerOf{
			User: "65532:65532", Env: []string{"PATH=/"}, Entrypoint: []string{"/replay"}, Cmd: []string{"--help"}, Directory: "/work", Labels: labels,
		},
		Root:    rootOf{Type: "layers", DiffIDs: []string{fmt.Sprintf("sha256:%x", sha256.Sum256(plain.Bytes()))}},
		History: []history{{Created: at, By: "make release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	layers := []descriptor{l.addBlob(layerType, packed.Bytes())}
	d, err := l.addJSON(manifestType, manifest{Schema: 2, Type: manifestType, Config: &config, Layers: layers})
	d.Platform = map[string]string{"os": p.system, "architecture": p.processor}
	return d, err
}
