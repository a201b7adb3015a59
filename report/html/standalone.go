package html

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/replay-llm/replay/internal/json"
)

// Simulator is the simulator of a page that answers its questions without a server.
type Simulator struct {
	Packed   []byte // the program for the browser, WebAssembly packed by gzip
	Glue     string // wasm_exec.js of the Go release that built it
	Licenses string // of both
}

// StandaloneLayout is the version of the initial data of such a page.
const StandaloneLayout = 1

// WriteStandalone writes the page with the settings and the simulator; data is its initial content. The page needs no
// server, and its content security policy forbids requests.
func WriteStandalone(w io.Writer, data any, s Simulator) error {
	assets, err := readAssets()
	if err != nil {
		return err
	}
	var parts bytes.Buffer
	for _, part := range [][2]string{
		{"simulator", base64.StdEncoding.EncodeToString(s.Packed)}, {"go", s.Glue}, {"worker", assets["worker.js"]}, {"licenses", s.Licenses},
	} {
		if text := strings.ToLower(part[1]); strings.Contains(text, "</script") || strings.Contains(text, "<!--") {
			return fmt.Errorf("the %s of the page would end its script", part[0])
		}
		fmt.Fprintf(&parts, "<script type=\"text/plain\" id=\"%s\">%s</script>\n", part[0], part[1])
	}
	return writePage(w, &framed{title: "replay explorer", scripts: explorerScripts("local.js"), styles: []string{"explore.css"}, parts: parts.String(), alone: true}, data)
}

// policyAlone returns the content security policy of a page in a file: its scripts run, the simulator runs in a
// worker, and no resource is loaded.
func policyAlone(scripts ...string) string {
	var hashes []string
	for _, text := range scripts {
		sum := sha256.Sum256([]byte(text))
		hashes = append(hashes, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	return `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src ` + strings.Join(hashes, " ") +
		` 'wasm-unsafe-eval'; worker-src blob:; style-src 'unsafe-inline'; img-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'">` + "\n"
}

const (
	dataBegin = `<script type="application/json" id="data">`
	dataEnd   = `</script>`
)

// cutData returns the text before the data of a page, the data, and the text after it.
func cutData(page []byte) (before, data, after []byte, err error) {
	at := bytes.Index(page, []byte(dataBegin))
	if at < 0 || !bytes.Contains(page, []byte(`id="simulator"`)) {
		return nil, nil, nil, errors.New("is no page with the simulator in it")
	}
	at += len(dataBegin)
	n := bytes.Index(page[at:], []byte(dataEnd))
	if n < 0 {
		return nil, nil, nil, errors.New("ends in the middle of its data")
	}
	return page[:at], page[at : at+n], page[at+n:], nil
}

// ReadStandalone reads the initial data of a page that WriteStandalone has written.
func ReadStandalone(page []byte, data any) error {
	_, text, _, err := cutData(page)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, data)
}

// ReplaceData writes a page that WriteStandalone has written, with other initial data.
func ReplaceData(w io.Writer, page []byte, data any) error {
	before, _, after, err := cutData(page)
	if err != nil {
		return err
	}
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_, err = w.Write(bytes.Join([][]byte{before, text, after}, nil))
	return err
}
