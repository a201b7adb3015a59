package tokenizer

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

// file is the content of tokenizer.json. Members without an effect on tokens are omitted, for example decoder,
// padding and truncation.
type file struct {
	AddedTokens []struct {
		ID         uint32 `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
	} `json:"added_tokens"`
	Normalizer    *part `json:"normalizer"`
	PreTokenizer  *part `json:"pre_tokenizer"`
	PostProcessor *part `json:"post_processor"`
	Model         model `json:"model"`
}

// model is the member model of the file.
type model struct {
	Type         string            `json:"type"`
	Dropout      *float64          `json:"dropout"`
	UnkToken     *string           `json:"unk_token"`
	Prefix       *string           `json:"continuing_subword_prefix"`
	Suffix       *string           `json:"end_of_word_suffix"`
	FuseUnk      bool              `json:"fuse_unk"`
	ByteFallback bool              `json:"byte_fallback"`
	IgnoreMerges bool              `json:"ignore_merges"`
	Vocab        map[string]uint32 `json:"vocab"`
	Merges       []pair            `json:"merges"`
}

// pair is a merge. pair is written as a list or as a string with a blank.
type pair [2]string

// UnmarshalJSON parses a list or a string.
func (p *pair) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		var parts []string
		if err := json.Unmarshal(text, &parts); err != nil {
			return err
		}
		if len(parts) != 2 {
			return fmt.Errorf("merge is %s, must be two tokens", text)
		}
		*p = pair{parts[0], parts[1]}
		return nil
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	left, right, ok := bytes.Cut([]byte(s), []byte(" "))
	if !ok {
		return fmt.Errorf("merge is %s, must be two tokens with a blank between them", text)
	}
	*p = pair{string(left), string(right)}
	return nil
}

// part is a processing step of a text. part has the members of all types of steps.
type part struct {
	Type             string `json:"type"`
	Normalizers      []part `json:"normalizers"`
	PreTokenizers    []part `json:"pretokenizers"`
	Processors       []part `json:"processors"`
	Prepend          string `json:"prepend"`
	Content          string `json:"content"`
	StripLeft        bool   `json:"strip_left"`
	StripRight       bool   `json:"strip_right"`
	Behavior         string `json:"behavior"`
	Invert           bool   `json:"invert"`
	IndividualDigits bool   `json:"individual_digits"`
	Replacement      string `json:"replacement"`
	PrependScheme    string `json:"prepend_scheme"`
	Split            *bool  `json:"split"`
	AddPrefixSpace   *bool  `json:"add_prefix_space"`
	UseRegex         *bool  `json:"use_regex"`
	Pattern          struct {
		String *string `json:"String"`
		Regex  *string `json:"Regex"`
	} `json:"pattern"`
	Single []struct {
		SpecialToken *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
	} `json:"single"`
	SpecialTokens map[string]struct {
		IDs []uint32 `json:"ids"`
	} `json:"special_tokens"`
}

// pattern returns the compiled member pattern.
func (c *part) pattern() (*pattern, error) {
	switch {
	case c.Pattern.Regex != nil:
		return parsePattern(*c.Pattern.Regex)
	case c.Pattern.String != nil:
		return compileLiteral(*c.Pattern.String)
	}
	return nil, fmt.Errorf("%s has no pattern, expected Regex or String", c.Type)
}

// compileLiteral returns a pattern that matches exactly text.
func compileLiteral(text string) (*pattern, error) {
	re, err := regexp.Compile(regexp.QuoteMeta(text))
	return &pattern{re: re}, err
}

// Load reads a tokenizer.json. Errors contain the file name and the unsupported part.
func Load(path string) (*Tokenizer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("%s: %w; must be a tokenizer.json", path, err)
	}
	t, err := f.tokenizer()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func (f *file) tokenizer() (*Tokenizer, error) {
	t := &Tokenizer{}
	var err error
	if t.model, err = f.Model.bpe(); err != nil {
		return nil, err
	}
	if t.normalize, err = buildSteps(f.Normalizer, buildNormalizers); err != nil {
		return nil, err
	}
	if t.split, err = buildSteps(f.PreTokenizer, buildSplitters); err != nil {
		return nil, err
	}
	templates, err := buildSteps(f.PostProcessor, buildTemplates)
	if err != nil {
		return nil, err
	}
	for _, a := range templates {
		t.head, t.tail = append(a.head, t.head...), append(t.tail, a.tail...)
	}
	for _, a := range f.AddedTokens {
		if a.SingleWord {
			return nil, excerpt.Errorf("added token %q is a single_word, must be none", a.Content)
		}
		if a.Content == "" {
			continue
		}
		token := added{a.Content, a.ID, a.LStrip, a.RStrip}
		if !a.Normalized {
			t.exact.add(token)
			continue
		}
		for _, n := range t.normalize {
			token.content = n(token.content)
		}
		if token.content != "" {
			t.normal.add(token)
		}
	}
	t.exact.sort()
	t.normal.sort()
	return t, nil
}

// buildSteps returns the steps of a member, which can be null, a step or a sequence of steps.
func buildSteps[T any](c *part, build func(c *part) ([]T, error)) ([]T, error) {
	if c == nil {
		return nil, nil
	}
	if c.Type != "Sequence" {
		return build(c)
	}
	var all []T
	for _, p := range slices.Concat(c.Normalizers, c.PreTokenizers, c.Processors) {
		some, err := buildSteps(&p, build)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (m *model) bpe() (*bpe, error) {
	empty := func(s *string) bool { return s == nil || *s == "" }
	switch {
	case m.Type != "BPE" && m.Type != "WordLevel" && (m.Type != "" || len(m.Merges) == 0):
		return nil, excerpt.Errorf("model is %q, must be BPE or WordLevel", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, fmt.Errorf("dropout is %v, must be none", *m.Dropout)
	case !empty(m.Prefix) || !empty(m.Suffix):
		return nil, fmt.Errorf("continuing_subword_prefix or end_of_word_suffix is given, must be neither")
	case len(m.Vocab) == 0:
		return nil, fmt.Errorf("vocab is empty, expected tokens")
	}
	b := &bpe{
		vocab: m.Vocab, merges: make(map[[2]uint32]merge, len(m.Merges)), cache: make(map[string][]uint32),
		fuse: m.FuseUnk, bytes: m.ByteFallback, whole: m.IgnoreMerges, only: m.Type == "WordLevel",
	}
	if m.UnkToken != nil {
		if b.unk, b.hasUnk = m.Vocab[*m.UnkToken]; !b.hasUnk {
			return nil, excerpt.Errorf("unk_token is %q, must be one of vocab", *m.UnkToken)
		}
	}
	for rank, p := range m.Merges {
		left, ok1 := m.Vocab[p[0]]
		right, ok2 := m.Vocab[p[1]]
		id, ok3 := m.Vocab[p[0]+p[1]]
		if !ok1 || !ok2 || !ok3 {
			return nil, excerpt.Errorf("merges[%d] is %q and %q, must be two tokens of vocab that make a third", rank, p[0], p[1])
		}
		b.merges[[2]uint32{left, right}] = merge{uint32(rank), id}
	}
	return b, nil
}

// template has the tokens before and after each text.
type template struct{ head, tail []uint32 }

// buildTemplates returns the templates of a step in post_processor.
func buildTemplates(c *part) ([]template, error) {
	switch c.Type {
	case "ByteLevel":
		return nil, nil // changes only offsets
	case "TemplateProcessing":
	default:
		return nil, excerpt.Errorf("post_processor is %q, must be ByteLevel, TemplateProcessing or Sequence", c.Type)
	}
	var t template
	to := &t.head
	for _, s := range c.Single {
		if s.SpecialToken == nil {
			to = &t.tail
			continue
		}
		known, ok := c.SpecialTokens[s.SpecialToken.ID]
		if !ok {
			return nil, excerpt.Errorf("post_processor names %q, must be one of its special_tokens", s.SpecialToken.ID)
		}
		*to = append(*to, known.IDs...)
	}
	return []template{t}, nil
}
