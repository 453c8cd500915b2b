package caddymodule

import (
	"bytes"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxModels is the largest model list of the gateway that is edited, in bytes. Presets add
// at most as much to it. OpenRouter's list has about 1 MiB.
const maxModels = 16 << 20

// presetLister returns the presets to add to a model list, with their models if withModels
// is true. An error ends them. A nil presetLister has none.
type presetLister func(withModels bool) iter.Seq2[domain.ActivePreset, error]

// listModels lets next answer r, a GET of the model list, and adds presets to the answer.
// It edits a whole list (see readModels) of at most maxModels bytes, sent plain with status
// 200. Other answers pass unchanged, except for Vary. So does the list if presets fail.
// failed is their error, and err is next's.
//
// It asks next for no content encoding, no range and no conditional answer, because such a
// list cannot be edited.
//
// If the key of who limits models, the list has only those that it may use.
func listModels(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, who domain.Principal, presets presetLister) (failed, err error) {
	list, err := fetchModels(w, r, next)
	if err != nil {
		_ = list.release() // unchanged
		return nil, err
	}
	if !list.holding {
		return nil, nil
	}
	text := list.held.Bytes()
	at, added, failed := addModels(text, presets)
	parts := [][]byte{text[:at], added, text[at:]}
	isLimited := false
	if who.LimitsModels() {
		var limited []byte
		if limited, isLimited = limitModels(slices.Concat(parts...), who.MayUseModel); isLimited {
			parts = [][]byte{limited}
		}
	}
	if len(added) == 0 && !isLimited {
		_ = list.release() // an error means that the client left
		return failed, nil
	}
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	describeEdited(w.Header(), length)
	w.WriteHeader(http.StatusOK)
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			break // the client left
		}
	}
	return failed, nil
}

// fetchModels lets next answer a request for the model list. Every answer varies by key.
func fetchModels(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (*listWriter, error) {
	askForWholeList(r)
	list := &listWriter{ResponseWriter: w}
	err := next.ServeHTTP(list, r)
	if !list.decided { // next wrote nothing: an error route may
		varyByKey(w.Header())
	}
	return list, err
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

// limitModels returns a model list without the entries whose id may not be used, and those
// without an id. It is not ok if text is not a list to edit.
func limitModels(text []byte, mayUse func(id string) bool) (limited []byte, ok bool) {
	list, ok := readModels(text)
	if !ok {
		return nil, false
	}
	start := list.dataEnd - len(list.data) + len("[")
	limited = append(make([]byte, 0, len(text)), text[:start]...)
	separator := ""
	for _, entry := range rawjson.Items(list.data) {
		if id, _ := rawjson.Text(rawjson.Get(entry, "id")); id != "" && mayUse(id) {
			limited = append(append(limited, separator...), entry...)
			separator = ","
		}
	}
	return append(limited, text[list.end:]...), true
}

// addModels returns the entries that presets add to the model list in body. at is their
// place, before the bracket that ends its data. It adds no preset that the list has
// already. If body is not a list to edit (see readModels), it reads no preset.
//
// The error comes from presets, or is errTooManyPresets.
func addModels(body []byte, presets presetLister) (at int, added []byte, err error) {
	list, ok := readModels(body)
	if !ok || list.more || presets == nil {
		return 0, nil, nil
	}
	for p, err := range presets(!list.isOpenAI()) {
		if err != nil {
			return 0, nil, err
		}
		if _, listed := list.entries[p.Reference()]; listed {
			continue
		}
		if list.count > 0 || len(added) > 0 {
			added = append(added, ',')
		}
		if added = list.appendModel(added, p); len(added) > maxModels {
			return 0, nil, errTooManyPresets
		}
	}
	return list.end, added, nil
}

var errTooManyPresets = errors.New("the presets of the workspace take more than " + strconv.Itoa(maxModels) + " bytes of the model list")

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
// It reads strictly: a list that clients may understand differently is not ok. A list with
// two members of one name is an example. Presets come on the last page. Clients count the
// entries of the pages before it to ask for the next one.
func readModels(text []byte) (l *modelList, ok bool) {
	l = &modelList{entries: map[string]jsontext.Value{}}
	w := rawjson.NewStrict(text)
	for name, err := range w.Members() {
		var value jsontext.Value
		if err == nil {
			value, err = w.Value()
		}
		if err != nil || !l.readMember(name, value) {
			return nil, false
		}
		if l.isArray && l.end == 0 { // this was data
			l.data, l.dataEnd = value, w.Offset()
			l.end = len(bytes.TrimRight(text[:w.Offset()-len("]")], " \t\r\n"))
		}
	}
	if w.End() != nil {
		return nil, false
	}
	return l, l.isArray && (l.isOpenAI() || l.isOpenRouter())
}

func (l *modelList) isOpenAI() bool {
	return l.object == "list" || l.count > 0 && l.openAI == l.count
}

func (l *modelList) isOpenRouter() bool {
	return !l.tagged && l.count > 0 && l.openRouter == l.count
}

// readMember reads a member of the list. It returns false for data that is no list of
// objects.
func (l *modelList) readMember(name, value jsontext.Value) bool {
	kind := value.Kind()
	switch {
	case rawjson.IsText(name, "data") && kind == '[':
		l.isArray = true
		for _, entry := range rawjson.Items(value) {
			if !l.readEntry(entry) {
				return false
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
	return true
}

// readEntry reads an entry of the list. It returns false for one that is no object.
func (l *modelList) readEntry(entry jsontext.Value) bool {
	var id, object string
	var slug, architecture, pricing bool
	for m, err := range rawjson.Object(entry) {
		if err != nil {
			return false
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
		l.entries[id] = entry
	}
	l.count++
	if object == "model" {
		l.openAI++
	}
	if slug || architecture && pricing {
		l.openRouter++
	}
	return true
}
