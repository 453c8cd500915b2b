// Package modellist adds presets to the list of models that a gateway sends, and leaves out models
// that a key may not use.
package modellist

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxSize is the largest model list of the gateway that is edited, in bytes. Presets add
// at most as much to it. OpenRouter's list has about 1 MiB.
const maxSize = 16 << 20

// Presets returns the presets to add to a model list, with their models if withModels
// is true. An error ends them. A nil Presets has none.
type Presets func(withModels bool) iter.Seq2[inference.ActivePreset, error]

// edit returns the parts of a model list with the entries of presets, and without the
// models that who may not use. If who limits models, the parts do not refer to text. It returns
// nil for a list that stays as it is. The error comes from presets, or is heldbody.ErrNoMemory.
func edit(text []byte, memory *heldbody.Reservation, who domain.Principal, presets Presets) (parts draft.Body, err error) {
	list, err := read(text, memory)
	if err != nil {
		if errors.Is(err, heldbody.ErrNoMemory) {
			return nil, err
		}
		return nil, nil
	}
	defer memory.Sub(list.size)
	added, failed := list.addPresets(presets, memory)
	switch {
	case errors.Is(failed, heldbody.ErrNoMemory):
		return nil, failed
	case who.LimitsModels():
		parts, err = list.limit(text, added, who.MayUseModel, memory)
		return parts, cmp.Or(err, failed)
	case len(added) > 0:
		parts = draft.Body{text[:list.end], added, text[list.end:]}
	}
	return parts, failed
}

// askForWholeList changes a GET or HEAD so that its answer is the whole list, plain.
// The server sends no body to a client that sent a HEAD.
func askForWholeList(r *http.Request) {
	r.Method = http.MethodGet
	header := r.Header
	header.Set("Accept-Encoding", "identity")
	for _, name := range [...]string{"If-None-Match", "If-Modified-Since", "Range", "If-Range"} {
		header.Del(name)
	}
}

// Describe fits the headers of the gateway's list to an edited one of length bytes.
func Describe(header http.Header, length int) {
	header.Set("Content-Length", strconv.Itoa(length))
	for _, name := range [...]string{"ETag", "Last-Modified", "Accept-Ranges", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest"} {
		header.Del(name) // they describe the gateway's bytes
	}
}

// limit returns the parts of the list in text with added, and without the entries whose id may
// not be used, and those without an id. It copies text.
func (l *List) limit(text, added []byte, mayUse func(id string) bool, memory *heldbody.Reservation) (parts draft.Body, err error) {
	limited, err := memory.Alloc(int64(len(text)))
	if err != nil {
		return nil, err
	}
	limited = append(limited, text[:l.dataEnd-len(l.data)+len("[")]...)
	separator := ""
	for _, entry := range rawjson.Items(l.data) {
		if id, _ := rawjson.Text(rawjson.Get(entry, "id")); id != "" && mayUse(id) {
			limited = append(append(limited, separator...), entry...)
			separator = ","
		}
	}
	if separator == "" {
		added = bytes.TrimPrefix(added, []byte(","))
	}
	at := len(limited)
	limited = append(limited, text[l.end:]...)
	return draft.Body{limited[:at], added, limited[at:]}, nil
}

// addPresets returns the entries of presets for the place before the bracket that ends the list's
// data. It adds no preset that the list has already, and reads none for a page that is not the
// last. The error comes from presets, or is errTooMany or heldbody.ErrNoMemory.
func (l *List) addPresets(presets Presets, memory *heldbody.Reservation) (added []byte, err error) {
	if l.more || presets == nil {
		return nil, nil
	}
	for p, err := range presets(!l.IsOpenAI()) {
		if err != nil {
			return nil, err
		}
		if _, listed := l.entries[p.Reference()]; listed {
			continue
		}
		if l.count > 0 || len(added) > 0 {
			added = append(added, ',')
		}
		before := cap(added)
		added = l.AppendModel(added, p)
		err = memory.Add(int64(cap(added) - before))
		switch {
		case errors.Is(err, heldbody.ErrNoMemory):
			return nil, err
		case err != nil, len(added) > maxSize:
			return nil, errTooMany
		}
	}
	return added, nil
}

var errTooMany = errors.New("the presets of the workspace are too many for the list of models")

// AppendModel appends the entry of p in a list of this shape. OpenAI's needs no model.
func (l *List) AppendModel(text []byte, p inference.ActivePreset) []byte {
	if l.IsOpenAI() {
		return appendOpenAIModel(text, p.Preset)
	}
	return appendOpenRouterModel(text, p, l.entries[p.Model])
}

// appendOpenAIModel appends the entry of p in OpenAI's list.
func appendOpenAIModel(text []byte, p domain.Preset) []byte {
	text = appendMember(text, `{"id":`, p.Reference())
	text = append(text, `,"object":"model","created":`...)
	text = strconv.AppendInt(text, p.CreatedAt.Unix(), 10)
	return append(text, `,"owned_by":"caddy-presets"}`...)
}

// appendOpenRouterModel appends the entry of p in OpenRouter's list. like is the entry
// of its model, or nil. Its members are kept byte for byte, as price and limits are those
// of the model that runs. Only the members that identify the entry are replaced.
func appendOpenRouterModel(text []byte, p inference.ActivePreset, like jsontext.Value) []byte {
	description := "A preset."
	switch {
	case p.Description != nil:
		description = *p.Description
	case p.Model != "":
		description = "A preset that runs " + p.Model + "."
	}
	text = appendMember(text, `{"id":`, p.Reference())
	text = appendMember(text, `,"canonical_slug":`, p.Reference())
	text = appendMember(text, `,"name":`, p.Name)
	text = append(text, `,"created":`...)
	text = strconv.AppendInt(text, p.CreatedAt.Unix(), 10)
	text = appendMember(text, `,"description":`, description)
	if like == nil {
		return append(text, unknownModel...)
	}
	for quoted, value := range rawjson.Pairs(like) {
		switch name, _ := rawjson.Text(quoted); name {
		case "id", "canonical_slug", "name", "created", "description":
		default:
			text = append(append(text, ','), quoted...)
			text = append(append(text, ':'), value...)
		}
	}
	return append(text, '}')
}

// unknownModel ends an OpenRouter entry of a preset whose model is not in the list. It
// has the least that OpenRouter's own client accepts. OpenRouter gives its routers a
// price of -1, as it depends on the model that runs; 0 would mean free. A context length
// of null is unknown. Every preset takes and gives text. No parameter is promised.
const unknownModel = `,"context_length":null` +
	`,"architecture":{"modality":"text->text","input_modalities":["text"],"output_modalities":["text"],"tokenizer":"Other","instruct_type":null}` +
	`,"pricing":{"prompt":"-1","completion":"-1"}` +
	`,"top_provider":{"context_length":null,"max_completion_tokens":null,"is_moderated":false}` +
	`,"per_request_limits":null,"supported_parameters":[],"default_parameters":null,"supported_voices":null,"links":{"details":""}}`

// appendMember appends head, which ends in a name and a colon, and then value as a JSON
// string.
func appendMember(text []byte, head, value string) []byte {
	text, _ = jsontext.AppendQuote(append(text, head...), value) // what is no UTF-8 is replaced
	return text
}

// List is a model list that was read.
type List struct {
	memory     *heldbody.Reservation
	size       int64                     // reserved for entries
	count      int                       // entries
	entries    map[string]jsontext.Value // those that have an id, each a part of text
	data       jsontext.Value            // the array of the entries, which ends at dataEnd
	dataEnd    int
	end        int    // where the last entry ends, or the first would begin
	isArray    bool   // data is there
	more       bool   // it is a page, and not the last one
	tagged     bool   // "object" is there
	object     string // the value of "object"
	openAI     int    // entries with OpenAI's members
	openRouter int    // entries with OpenRouter's
}

// read reads a model list. It is one JSON object whose data is an array of objects,
// in one of two shapes:
//
//   - OpenAI's: its "object" is "list", or that of each entry is "model". vLLM,
//     Ollama, LiteLLM and others have it, with members of their own.
//   - OpenRouter's: it has no "object", and each entry has a canonical_slug, or
//     both architecture and pricing.
//
// It reads strictly: a list that clients may understand differently is errNoList. A list with
// two members of one name is an example. Presets come on the last page. Clients count the
// entries of the pages before it to ask for the next one.
//
// It reserves memory for what it keeps of the entries, and returns heldbody.ErrNoMemory or ErrTooLarge if
// there is none.
func read(text []byte, memory *heldbody.Reservation) (*List, error) {
	l := &List{memory: memory, entries: map[string]jsontext.Value{}}
	if err := l.read(text); err != nil {
		memory.Sub(l.size)
		return nil, err
	}
	return l, nil
}

var errNoList = errors.New("not a list of models to edit")

// entrySize is what an entry takes in List.entries, about, in bytes.
const entrySize = 128

func (l *List) read(text []byte) error {
	list, err := rawjson.ReadStrict(text)
	if err != nil {
		return errNoList
	}
	for name, value := range rawjson.Pairs(list) {
		if err := l.readMember(name, value); err != nil {
			return err
		}
		if l.isArray && l.end == 0 { // this was data
			l.data, l.dataEnd = value, rawjson.Offset(text, value)+len(value)
			l.end = len(bytes.TrimRight(text[:l.dataEnd-len("]")], " \t\r\n"))
		}
	}
	if !l.isArray || !l.IsOpenAI() && !l.isOpenRouter() {
		return errNoList
	}
	return nil
}

// Entry returns the entry of an id, nil for none.
func (l *List) Entry(id string) jsontext.Value { return l.entries[id] }

// IsOpenAI reports whether the list has OpenAI's shape.
func (l *List) IsOpenAI() bool {
	return l.object == "list" || l.count > 0 && l.openAI == l.count
}

func (l *List) isOpenRouter() bool {
	return !l.tagged && l.count > 0 && l.openRouter == l.count
}

// readMember reads a member of the list. It returns errNoList for data that is no list of
// objects.
func (l *List) readMember(name, value jsontext.Value) error {
	kind := value.Kind()
	switch {
	case rawjson.IsText(name, "data") && kind == '[':
		l.isArray = true
		for _, entry := range rawjson.Items(value) {
			if err := l.readEntry(entry); err != nil {
				return err
			}
		}
	case rawjson.IsText(name, "object"):
		l.tagged = true
		l.object, _ = rawjson.Text(value)
	case rawjson.IsText(name, "has_more"):
		l.more = l.more || kind == 't'
	case rawjson.IsText(name, "links"): // OpenRouter's, where next is null on the last page
		next, _ := rawjson.Text(rawjson.Get(value, "next"))
		l.more = l.more || next != ""
	}
	return nil
}

// readEntry reads an entry of the list. It returns errNoList for one that is no object.
func (l *List) readEntry(entry jsontext.Value) error {
	var id, object string
	var slug, architecture, pricing bool
	if entry.Kind() != '{' {
		return errNoList
	}
	for name, value := range rawjson.Pairs(entry) {
		switch name, _ := rawjson.Text(name); name {
		case "id":
			id, _ = rawjson.Text(value)
		case "object":
			object, _ = rawjson.Text(value)
		case "canonical_slug":
			slug = true
		case "architecture":
			architecture = true
		case "pricing":
			pricing = true
		}
	}
	if _, known := l.entries[id]; !known && id != "" {
		size := int64(entrySize + len(id))
		if err := l.memory.Add(size); err != nil {
			return err
		}
		l.size += size
		l.entries[id] = entry
	}
	l.count++
	if object == "model" {
		l.openAI++
	}
	if slug || architecture && pricing {
		l.openRouter++
	}
	return nil
}
