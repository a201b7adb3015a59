package caches

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

const (
	goodHead   = `{"format":"replay-caches","version":1,"block_size":16,"trace_block_size":32,"prefixes":2,"workers":1}`
	goodPrefix = `{"prefix":0,"hash_ids":[7,8]}
{"prefix":1,"parent":0,"hash_ids":[9]}`
	goodWorker = `{"worker":0,"engine":"vllm","kv_blocks":20,"cached_blocks":8,"entries":3}`
	goodRuns   = `{"prefix":1,"blocks":[0,5]}
{"blocks":[0,2]}
{"prefix":0,"blocks":[0,1],"copy":1}`
)

func goodFile() string {
	return strings.Join([]string{goodHead, goodPrefix, goodWorker, goodRuns, ""}, "\n")
}

func TestReadGood(t *testing.T) {
	f, err := Read(strings.NewReader(goodFile()), "c.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if ids := f.IDs(1); !reflect.DeepEqual(ids, []uint64{7, 8, 9}) {
		t.Errorf("prefix 1 has ids %v, want 7 8 9", ids)
	}
	p := f.Prompts()
	if p.Len() != 1 {
		t.Fatalf("%d prompts, want one for both prefixes", p.Len())
	}
	if ids, tokens := p.At(0); len(ids) != 3 || tokens != 5*16 {
		t.Errorf("prompt of %d ids and %d tokens, want 3 and 80", len(ids), tokens)
	}
	var b bytes.Buffer
	if err := f.Write(&b); err != nil || b.String() != goodFile() {
		t.Errorf("written again (%v)\n%swant\n%s", err, b.String(), goodFile())
	}
}

// TestReadErrors checks that every error names the line and the expected content.
func TestReadErrors(t *testing.T) {
	replace := func(old, by string) string { return strings.Replace(goodFile(), old, by, 1) }
	for _, x := range []struct{ text, want string }{
		{"", "c.jsonl: the file is empty"},
		{`{"timestamp":0}`, `c.jsonl:1: must be {"format":"replay-caches"`},
		{"no JSON", `c.jsonl:1: must be {"format":"replay-caches"`},
		{replace(`"version":1`, `"version":2`), "c.jsonl:1: version is 2, must be 1"},
		{replace(`"block_size":16`, `"block_size":0`), "c.jsonl:1: block_size is 0"},
		{replace(`"workers":1`, `"workers":0`), "c.jsonl:1: prefixes are 2 and workers 0"},
		{replace(`"workers":1`, `"workers":2`), "c.jsonl:7: the file ends here, must be worker 2 of 2, of the first line after it: it was cut short"},
		{goodHead, "c.jsonl:1: the file ends here, must be prefix 0 of 2 after it"},
		{goodHead + "\n{\"prefix\":0,\"hash_", "c.jsonl:2: the line is cut short, must be prefix 0 of 2"},
		{replace(`"prefix":1,"parent":0`, `"prefix":3,"parent":0`), "c.jsonl:3: prefix is 3, must be 1"},
		{replace(`"parent":0`, `"parent":1`), "c.jsonl:3: parent is 1, must be a prefix before 1"},
		{replace(`"hash_ids":[9]`, `"hash_ids":[]`), "c.jsonl:3: no hash_ids"},
		{replace(`"hash_ids":[9]`, `"hash_ids":[-9]`), "c.jsonl:3: json: cannot unmarshal number -9"},
		{replace(`"worker":0`, `"worker":-1`), "c.jsonl:4: worker is -1, must be 0"},
		{replace(`"kv_blocks":20`, `"kv_blocks":7`), "c.jsonl:7: 8 blocks up to here, more than the 7"},
		{replace(`"cached_blocks":8`, `"cached_blocks":9`), "c.jsonl:4: cached_blocks is 9, and its entries have 8"},
		{replace(`"kv_blocks"`, `"blocks"`), `c.jsonl:4: json: unknown field "blocks"`},
		{replace(`"blocks":[0,5]`, `"blocks":[5,5]`), "c.jsonl:5: blocks are 5 to 5"},
		{replace(`"blocks":[0,5]`, `"blocks":[0,7]`), "c.jsonl:5: 7 blocks of 16 tokens of a prefix that has 3 hash ids of 32"},
		{replace(`{"prefix":1,"blocks"`, `{"prefix":2,"blocks"`), "c.jsonl:5: prefix is 2, must be one of the 2"},
		{replace(`{"blocks":[0,2]}`, `{"blocks":[1,3]}`), "c.jsonl:6: blocks from 1 on without a prefix"},
		{replace(`{"blocks":[0,2]}`, `{"blocks":[0,2],"copy":1}`), "c.jsonl:6: copy goes with a prefix alone"},
		{replace(`{"blocks":[0,2]}`, `{"blocks":[0,2],"own":1,"shared":3}`), "c.jsonl:6: shared is 3"},
		{goodFile() + "{}\n", "c.jsonl:8: more than the 1 workers"},
		{strings.Replace(goodFile(), `"workers":1`, `"workers":2`, 1) + goodWorker + "\n" + goodRuns, "c.jsonl:8: worker 0 is here for the second time, after line 4"},
	} {
		_, err := Read(strings.NewReader(x.text), "c.jsonl")
		if err == nil || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%s\n\tgives %v\n\twant  %s", x.text, err, x.want)
		}
	}
}

// FuzzRead checks that a file that was read without an error is written such that it reads the same again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(goodFile()))
	f.Add([]byte(strings.Replace(goodFile(), `{"blocks":[0,2]}`, `{"prefix":0,"blocks":[1,3],"own":1,"shared":1}`, 1)))
	f.Add([]byte(goodHead))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Read(bytes.NewReader(text), "c.jsonl")
		if err != nil {
			return
		}
		file.Prompts()
		var b bytes.Buffer
		if err := file.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := Read(bytes.NewReader(b.Bytes()), "c.jsonl")
		if err != nil {
			t.Fatalf("%v\n%s", err, b.Bytes())
		}
		var c bytes.Buffer
		if err := again.Write(&c); err != nil || !bytes.Equal(b.Bytes(), c.Bytes()) {
			t.Fatalf("%v\n%s\n%s", err, b.Bytes(), c.Bytes())
		}
	})
}
