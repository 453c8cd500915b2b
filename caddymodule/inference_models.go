package caddymodule

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxModels is the largest model list of the gateway that is edited, in bytes. Presets add
// at most as much to it. OpenRouter's list has about 1 MiB.
const maxModels = 16 << 20

// presetLister returns the presets to add to a model list, with their models if withModels
// is true. An error ends them. A nil presetLister has none.
type presetLister func(withModels bool) iter.Seq2[domain.ActivePreset, error]

// listModels lets next answer a GET of the model list, and adds presets to the answer.
// It edits a whole list (see readModels) of at most maxModels bytes, sent plain with status
// 200. Other answers pass unchanged, except for Vary. So does the list if presets fail.
// failed is their error, and err is next's. Without memory for the list it answers 503.
//
// It asks next for no content encoding, no range and no conditional answer, because such a
// list cannot be edited.
//
// If the caller's key limits models, the list has only those that it may use.
func (c *inferenceCall) listModels(next caddyhttp.Handler, presets presetLister) (failed, err error) {
	list := c.newListWriter()
	defer list.free()
	if err := list.fetch(next); err != nil {
		_ = list.release() // unchanged
		return nil, err
	}
	var parts inference.Body
	if list.holding {
		if parts, failed = editModels(list.held, &list.memory, c.who, presets); errors.Is(failed, errNoMemory) {
			list.refuse(failed)
		}
	}
	switch {
	case list.refused != nil:
		c.render(response{}, list.refused)
		return nil, nil
	case parts == nil:
		_ = list.release() // an error means that the client left
		return failed, nil
	}
	if c.who.LimitsModels() {
		list.drop() // parts are copies
	}
	describeEdited(c.w.Header(), parts.Len())
	_ = list.send(parts)
	return failed, nil
}

// editModels returns the parts of a model list with the entries of presets, and without the
// models that who may not use. If who limits models, the parts do not refer to text. It returns
// nil for a list that stays as it is. The error comes from presets, or is errNoMemory.
func editModels(text []byte, memory *reservation, who domain.Principal, presets presetLister) (parts inference.Body, err error) {
	list, err := readModels(text, memory)
	if err != nil {
		if errors.Is(err, errNoMemory) {
			return nil, err
		}
		return nil, nil
	}
	defer memory.sub(list.size)
	added, failed := list.addPresets(presets, memory)
	switch {
	case errors.Is(failed, errNoMemory):
		return nil, failed
	case who.LimitsModels():
		parts, err = list.limit(text, added, who.MayUseModel, memory)
		return parts, cmp.Or(err, failed)
	case len(added) > 0:
		parts = inference.Body{text[:list.end], added, text[list.end:]}
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

// describeEdited fits the headers of the gateway's list to an edited one of length bytes.
func describeEdited(header http.Header, length int) {
	header.Set("Content-Length", strconv.Itoa(length))
	for _, name := range [...]string{"ETag", "Last-Modified", "Accept-Ranges", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest"} {
		header.Del(name) // they describe the gateway's bytes
	}
}

// limit returns the parts of the list in text with added, and without the entries whose id may
// not be used, and those without an id. It copies text.
func (l *modelList) limit(text, added []byte, mayUse func(id string) bool, memory *reservation) (parts inference.Body, err error) {
	limited, err := memory.alloc(int64(len(text)))
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
	return inference.Body{limited[:at], added, limited[at:]}, nil
}

// addPresets returns the entries of presets for the place before the bracket that ends the list's
// data. It adds no preset that the list has already, and reads none for a page that is not the
// last. The error comes from presets, or is errTooManyPresets or errNoMemory.
func (l *modelList) addPresets(presets presetLister, memory *reservation) (added []byte, err error) {
	if l.more || presets == nil {
		return nil, nil
	}
	for p, err := range presets(!l.isOpenAI()) {
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
		added = l.appendModel(added, p)
		err = memory.add(int64(cap(added) - before))
		switch {
		case errors.Is(err, errNoMemory):
			return nil, err
		case err != nil, len(added) > maxModels:
			return nil, errTooManyPresets
		}
	}
	return added, nil
}

var errTooManyPresets = errors.New("the presets of the workspace are too many for the list of models")

// appendModel appends the entry of p in a list of this shape. OpenAI's needs no model.
func (l *modelList) appendModel(text []byte, p domain.ActivePreset) []byte {
	if l.isOpenAI() {
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
func appendOpenRouterModel(text []byte, p domain.ActivePreset, like jsontext.Value) []byte {
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

// modelList is a model list that was read.
type modelList struct {
	memory     *reservation
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

// readModels reads a model list. It is one JSON object whose data is an array of objects,
// in one of two shapes:
//
//   - OpenAI's: its "object" is "list", or that of each entry is "model". vLLM,
//     Ollama, LiteLLM and others have it, with members of their own.
//   - OpenRouter's: it has no "object", and each entry has a canonical_slug, or
//     both architecture and pricing.
//
// It reads strictly: a list that clients may understand differently is errNoModels. A list with
// two members of one name is an example. Presets come on the last page. Clients count the
// entries of the pages before it to ask for the next one.
//
// It reserves memory for what it keeps of the entries, and returns errNoMemory or errTooLarge if
// there is none.
func readModels(text []byte, memory *reservation) (*modelList, error) {
	l := &modelList{memory: memory, entries: map[string]jsontext.Value{}}
	if err := l.read(text); err != nil {
		memory.sub(l.size)
		return nil, err
	}
	return l, nil
}

var errNoModels = errors.New("not a list of models to edit")

// entrySize is what an entry takes in modelList.entries, about, in bytes.
const entrySize = 128

func (l *modelList) read(text []byte) error {
	w := rawjson.NewStrict(text)
	for name, err := range w.Members() {
		var value jsontext.Value
		if err == nil {
			value, err = w.Value()
		}
		if err != nil {
			return errNoModels
		}
		if err := l.readMember(name, value); err != nil {
			return err
		}
		if l.isArray && l.end == 0 { // this was data
			l.data, l.dataEnd = value, w.Offset()
			l.end = len(bytes.TrimRight(text[:w.Offset()-len("]")], " \t\r\n"))
		}
	}
	if w.End() != nil || !l.isArray || !l.isOpenAI() && !l.isOpenRouter() {
		return errNoModels
	}
	return nil
}

func (l *modelList) isOpenAI() bool {
	return l.object == "list" || l.count > 0 && l.openAI == l.count
}

func (l *modelList) isOpenRouter() bool {
	return !l.tagged && l.count > 0 && l.openRouter == l.count
}

// readMember reads a member of the list. It returns errNoModels for data that is no list of
// objects.
func (l *modelList) readMember(name, value jsontext.Value) error {
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

// readEntry reads an entry of the list. It returns errNoModels for one that is no object.
func (l *modelList) readEntry(entry jsontext.Value) error {
	var id, object string
	var slug, architecture, pricing bool
	for m, err := range rawjson.Object(entry) {
		if err != nil {
			return errNoModels
		}
		switch m.Name {
		case "id":
			id, _ = rawjson.Text(m.Value)
		case "object":
			object, _ = rawjson.Text(m.Value)
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
		if err := l.memory.add(size); err != nil {
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
