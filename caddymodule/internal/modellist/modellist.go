// Package modellist adds presets to the list of models that a gateway sends, and leaves out models
// that a key may not use.
package modellist

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"

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

// Presets are the presets to add to a model list. An error ends them. A nil Presets has none.
type Presets iter.Seq2[inference.ActivePreset, error]

// edit returns the parts of a model list with the entries of presets, and without the
// models that who may not use. If who limits models, the parts do not refer to text. It returns
// nil for a list that stays as it is. The error comes from presets, or is heldbody.ErrNoMemory.
func edit(text []byte, forAnthropic bool, memory *heldbody.Reservation, who domain.Principal, presets Presets) (parts draft.Body, err error) {
	list, err := read(text, forAnthropic, memory)
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
		parts, err = copyOf(list.splice(text, added, who.MayUseModel), memory)
		return parts, cmp.Or(err, failed)
	case len(added.text) > 0:
		parts = list.splice(text, added, nil)
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

func copyOf(parts draft.Body, memory *heldbody.Reservation) (draft.Body, error) {
	whole, err := memory.Alloc(int64(parts.Len()))
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		whole = append(whole, part...)
	}
	return draft.Body{whole}, nil
}

// entries are those of presets, with the ids of the first and the last one.
type entries struct {
	text        []byte // with commas between
	first, last string
}

// splice returns the parts of the list in text with the entries added. With mayUse it leaves out the
// entries whose id may not be used, and those without an id. The last page then has the ids of its own
// first and last entry as cursors. Other pages keep theirs, where the next page of the gateway begins.
func (l *List) splice(text []byte, added entries, mayUse func(id string) bool) draft.Body {
	first, last := l.first, l.last
	begin := l.dataEnd - len(l.data) + len("[")
	shown := draft.Body{text[begin:l.end]}
	if mayUse != nil {
		shown, first, last = nil, "", ""
		for _, entry := range rawjson.Items(l.data) {
			id, _ := rawjson.Text(rawjson.Get(entry, "id"))
			if id == "" || !mayUse(id) {
				continue
			}
			if shown != nil {
				shown = append(shown, comma)
			}
			shown, first, last = append(shown, entry), cmp.Or(first, id), id
		}
	}
	if len(added.text) > 0 {
		if shown.Len() > 0 {
			shown = append(shown, comma)
		}
		shown, first, last = append(shown, added.text), cmp.Or(first, added.first), added.last
	}
	changes := []change{{begin, l.end, shown}}
	setCursor := func(value jsontext.Value, id string) {
		if value == nil || l.more || rawjson.IsText(value, id) {
			return
		}
		cursor := jsontext.Value("null")
		if id != "" {
			cursor = rawjson.Quote(id)
		}
		at := rawjson.Offset(text, value)
		changes = append(changes, change{at, at + len(value), draft.Body{cursor}})
	}
	setCursor(l.firstID, first)
	setCursor(l.lastID, last)
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.from, b.from) })
	var parts draft.Body
	at := 0
	for _, c := range changes {
		parts = append(append(parts, text[at:c.from]), c.parts...)
		at = c.to
	}
	return append(parts, text[at:])
}

type change struct {
	from, to int
	parts    draft.Body
}

var comma = []byte(",")

// addPresets returns the entries of presets. It adds no preset that the list has already, and reads
// none for a page that is not the last. The error comes from presets, or is errTooMany or
// heldbody.ErrNoMemory.
func (l *List) addPresets(presets Presets, memory *heldbody.Reservation) (added entries, err error) {
	if l.more || presets == nil {
		return entries{}, nil
	}
	for p, err := range presets {
		if err != nil {
			return entries{}, err
		}
		id := l.idOf(p)
		if l.entries[id] != nil {
			continue
		}
		before := cap(added.text)
		if before > 0 {
			added.text = append(added.text, ',')
		}
		added.text = l.appendModel(added.text, p)
		added.first, added.last = cmp.Or(added.first, id), id
		err = memory.Add(int64(cap(added.text) - before))
		switch {
		case errors.Is(err, heldbody.ErrNoMemory):
			return entries{}, err
		case err != nil, len(added.text) > maxSize:
			return entries{}, errTooMany
		}
	}
	return added, nil
}

var errTooMany = errors.New("the presets of the workspace are too many for the list of models")

// form is a shape of a list.
type form int

const (
	unknownForm form = iota
	openAI
	openRouter
	anthropic
)

// begins are the members with which the entries of presets begin.
var begins = [...][]string{
	openAI:     {"id", "object", "created", "owned_by"},
	openRouter: {"id", "canonical_slug", "name", "created", "description"},
	anthropic:  {"type", "id", "display_name", "created_at"},
}

// identity are the members that tell an entry from that of another model, where they are in a list.
var identity = []string{"id", "canonical_slug", "name", "display_name", "description", "created", "created_at"}

// Model returns the entry of p in the list: the gateway's own, or ours.
func (l *List) Model(p inference.ActivePreset) []byte {
	if entry := l.entries[l.idOf(p)]; entry != nil {
		return entry
	}
	return l.appendModel(nil, p)
}

func (l *List) idOf(p inference.ActivePreset) string {
	if l.forAnthropic {
		return p.Ref().NameForClaude(p.Model)
	}
	return p.Ref().String()
}

// appendModel appends the entry of p. It has the members of its model's entry byte for byte, as
// price and limits are those of the model that runs, but for those that identify the model.
func (l *List) appendModel(text []byte, p inference.ActivePreset) []byte {
	own := slices.Clip(begins[l.form])
	if l.forAnthropic { // Claude Code shows both, whatever the form
		if own = addName(own, "display_name"); p.Description != nil {
			own = addName(own, "description")
		}
	}
	separator := byte('{')
	for _, name := range own {
		text = append(append(text, separator, '"'), name...)
		text = l.appendOwn(append(text, '"', ':'), p, name, 0)
		separator = ','
	}
	like := l.entries[p.Model]
	shape := like
	if shape == nil {
		shape = l.sample
	}
	for quoted, value := range rawjson.Pairs(shape) {
		name, _ := rawjson.Text(quoted)
		switch isOwn := slices.Contains(identity, name); {
		case slices.Contains(own, name), name == "aliases", !isOwn && like == nil:
		case isOwn:
			text = l.appendOwn(append(append(append(text, ','), quoted...), ':'), p, name, value.Kind())
		default:
			text = append(append(append(append(text, ','), quoted...), ':'), value...)
		}
	}
	if like == nil && l.form == openRouter {
		text = append(text, unknownModel...)
	}
	return append(text, '}')
}

func addName(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// appendOwn appends the value of a member of an entry that is the preset's own. kind is that of the value
// in whose place it is, 0 for none.
func (l *List) appendOwn(text []byte, p inference.ActivePreset, name string, kind jsontext.Kind) []byte {
	value := "model" // type and object
	switch name {
	case "id", "canonical_slug":
		value = l.idOf(p)
	case "name", "display_name":
		value = p.DisplayName()
	case "owned_by":
		value = "caddy-presets"
	case "description":
		value = "A preset."
		if p.Description != nil {
			value = *p.Description
		} else if p.Model != "" {
			value = "A preset that runs " + p.Model + "."
		}
	case "created", "created_at":
		if kind == '0' || kind != '"' && name == "created" {
			return strconv.AppendInt(text, p.CreatedAt.Unix(), 10)
		}
		value = p.CreatedAt.UTC().Format(time.RFC3339)
	}
	text, _ = jsontext.AppendQuote(text, value) // what is no UTF-8 is replaced
	return text
}

// unknownModel ends an OpenRouter entry of a preset whose model is not in the list. It
// has the least that OpenRouter's own client accepts. OpenRouter gives its routers a
// price of -1, as it depends on the model that runs; 0 would mean free. A context length
// of null is unknown. Every preset takes and gives text. No parameter is promised.
const unknownModel = `,"context_length":null` +
	`,"architecture":{"modality":"text->text","input_modalities":["text"],"output_modalities":["text"],"tokenizer":"Other","instruct_type":null}` +
	`,"pricing":{"prompt":"-1","completion":"-1"}` +
	`,"top_provider":{"context_length":null,"max_completion_tokens":null,"is_moderated":false}` +
	`,"per_request_limits":null,"supported_parameters":[],"default_parameters":null,"supported_voices":null,"links":{"details":""}`

// List is a model list that was read.
type List struct {
	forAnthropic bool // the client reads Anthropic's form
	form         form
	memory       *heldbody.Reservation
	size         int64                     // reserved for entries
	count        int                       // entries
	entries      map[string]jsontext.Value // those that have an id, each a part of text
	sample       jsontext.Value            // the first entry
	first, last  string                    // the ids of the first and the last entry
	data         jsontext.Value            // the array of the entries, which ends at dataEnd
	dataEnd      int
	end          int            // where the last entry ends, or the first would begin
	isArray      bool           // data is there
	more         bool           // it is a page, and not the last one
	firstID      jsontext.Value // Anthropic's cursors, nil where they are not there
	lastID       jsontext.Value
	tagged       bool   // "object" is there
	object       string // the value of "object"

	// asOpenAI, asOpenRouter and asAnthropic count entries with the members of each.
	asOpenAI, asOpenRouter, asAnthropic int
}

// read reads a model list. It is one JSON object whose data is an array of objects,
// in one of three shapes:
//
//   - OpenAI's: its "object" is "list", or that of each entry is "model". vLLM,
//     Ollama, LiteLLM and others have it, with members of their own.
//   - OpenRouter's: it has no "object", and each entry has a canonical_slug, or
//     both architecture and pricing.
//   - Anthropic's: it has no "object", and the type of each entry is "model". An empty one has a
//     cursor, or a client that reads this form.
//
// It reads strictly: a list that clients may understand differently is errNoList. A list with
// two members of one name is an example. Presets come on the last page. Clients count the
// entries of the pages before it to ask for the next one.
//
// It reserves memory for what it keeps of the entries, and returns heldbody.ErrNoMemory or ErrTooLarge if
// there is none.
func read(text []byte, forAnthropic bool, memory *heldbody.Reservation) (*List, error) {
	l := &List{forAnthropic: forAnthropic, memory: memory, entries: map[string]jsontext.Value{}}
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
	switch {
	case !l.isArray:
	case l.object == "list", l.count > 0 && l.asOpenAI == l.count:
		l.form = openAI
	case !l.tagged && l.count > 0 && l.asOpenRouter == l.count:
		l.form = openRouter
	case !l.tagged && l.asAnthropic == l.count && (l.count > 0 || l.forAnthropic || l.firstID != nil || l.lastID != nil):
		l.form = anthropic
	}
	if l.form == unknownForm {
		return errNoList
	}
	return nil
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
	case rawjson.IsText(name, "first_id") && (kind == '"' || kind == 'n'):
		l.firstID = value
	case rawjson.IsText(name, "last_id") && (kind == '"' || kind == 'n'):
		l.lastID = value
	case rawjson.IsText(name, "links"): // OpenRouter's, where next is null on the last page
		next, _ := rawjson.Text(rawjson.Get(value, "next"))
		l.more = l.more || next != ""
	}
	return nil
}

// readEntry reads an entry of the list. It returns errNoList for one that is no object.
func (l *List) readEntry(entry jsontext.Value) error {
	var id, object, kind string
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
		case "type":
			kind, _ = rawjson.Text(value)
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
	if l.count == 0 {
		l.sample, l.first = entry, id
	}
	l.last = id
	l.count++
	if object == "model" {
		l.asOpenAI++
	}
	if slug || architecture && pricing {
		l.asOpenRouter++
	}
	if kind == "model" {
		l.asAnthropic++
	}
	return nil
}
