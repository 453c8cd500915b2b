package reference

import (
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// promptMembers are the members of a request that name a prompt.
type promptMembers struct {
	place                  string         // the beginning of each member's JSON Pointer
	id, version, variables jsontext.Value // nil: none
}

// Prompt is how clients of other services name a prompt and give it values. The
// id is a preset's slug.
type Prompt struct {
	openai  promptMembers // of the field prompt
	litellm promptMembers // of the fields prompt_id, prompt_version and prompt_variables
	// Err is the first mistake that only counts if the prompt is a preset.
	Err error
	// ErrID is the error for an id that no preset has.
	ErrID error
	// Only tells that the request names no preset in another way.
	Only bool

	// Variables is the object of values, nil for none. place is its JSON Pointer.
	Variables jsontext.Value
	Place     string
}

// noPrompt is that of a request without any of the fields. It never changes.
var noPrompt = Prompt{Place: "/prompt/variables"}

// IsPromptField reports whether a field of a dialect's requests is for a Prompt. In a request for images, prompt
// is the text that describes them.
func IsPromptField(dialect domain.Dialect, name string) bool {
	switch name {
	case "prompt", "prompt_id", "prompt_version", "prompt_variables":
		return dialect != domain.Images
	}
	return false
}

// HasValues reports whether there is a value for a variable.
func (p *Prompt) HasValues() bool {
	return p.Variables != nil && !rawjson.IsEmpty(p.Variables)
}

func (p *Prompt) setError(place, message string) {
	if p.Err == nil {
		p.Err = domain.InvalidAt(place, message)
	}
}

// readField reads a field of the request. null counts as not sent.
func (p *Prompt) readField(field rawjson.Member) {
	switch {
	case field.Value.Kind() == 'n':
	case field.Name == "prompt_id":
		p.litellm.id = field.Value
	case field.Name == "prompt_version":
		p.litellm.version = field.Value
	case field.Name == "prompt_variables":
		p.litellm.variables = field.Value
	case field.Value.Kind() != '{':
		p.setError("/prompt", "must be an object")
	default:
		p.readObject(field.Value)
	}
}

// readObject reads the field prompt.
func (p *Prompt) readObject(prompt jsontext.Value) {
	members := map[string]*jsontext.Value{"id": &p.openai.id, "version": &p.openai.version, "variables": &p.openai.variables}
	for quoted, value := range rawjson.Pairs(prompt) {
		name, _ := rawjson.Head(quoted, dialects.MaxPointed)
		member := members[name]
		switch {
		case value.Kind() == 'n':
		case member == nil:
			p.setError("/prompt"+dialects.Pointer(name), "is no member of a prompt, which has id, version and variables")
		case *member != nil:
			p.setError("/prompt"+dialects.Pointer(name), "duplicate name")
		default:
			*member = value
		}
	}
}

// resolvePrompt makes the request's prompt a reference, after all fields were read.
func (q *Request) resolvePrompt() {
	p := q.Prompt
	if p == &noPrompt {
		return
	}
	p.openai.place, p.litellm.place = "/prompt/", "/prompt_"
	p.Place = noPrompt.Place
	p.Only = !q.Found
	for _, m := range [...]promptMembers{p.openai, p.litellm} {
		switch {
		case m.id != nil:
			q.namePrompt(m)
		case m.version != nil:
			p.setError(m.place+"version", "must have an id beside it")
		}
		switch {
		case m.variables == nil:
		case m.variables.Kind() != '{':
			p.setError(m.place+"variables", "must be an object")
		case p.Variables != nil:
			p.setError(m.place+"variables", "must not be given beside "+p.Place)
		default:
			p.Variables, p.Place = m.variables, m.place+"variables"
		}
	}
	if !q.Found && p.HasValues() {
		p.setError(p.Place, "must have a preset beside it")
		q.rejectReference(p.Err)
	}
}

// namePrompt stores the reference of a prompt with an id.
func (q *Request) namePrompt(m promptMembers) {
	p, place := q.Prompt, m.place+"id"
	slug, isText := rawjson.Head(m.id, utf8.UTFMax*maxShownID)
	switch {
	case !isText:
		p.ErrID = domain.InvalidAt(place, "must be a string")
	case domain.CheckPresetSlug(slug) != nil:
		p.ErrID = errNoPrompt(slug)
	}
	if p.ErrID != nil {
		if q.Found { // the other reference is a different one
			q.setError(p.ErrID)
		}
		q.Found = true
		return
	}
	ref := Ref{Slug: slug}
	if m.version != nil {
		var ok bool
		if ref.Pin, ok = rawjson.Head(m.version, maxPin); m.version.Kind() == '0' && len(m.version) <= maxPin {
			ref.Pin = string(m.version)
			_, ok = domain.ParseNumber(ref.Pin)
		}
		if !ok || !domain.IsSlug(ref.Pin, maxPin) {
			p.setError(m.place+"version", "must be the number of a version, or a label")
			ref.Pin = ""
		}
	}
	q.addReference(place, ref)
}

// maxShownID bounds an id in an error, in characters.
const maxShownID = 256

// errNoPrompt is the error for an id that no preset can have. It names a short one.
func errNoPrompt(id string) error {
	message := "Preset not found"
	if utf8.RuneCountInString(id) <= maxShownID {
		message += ": " + strconv.QuoteToASCII(id)
	}
	return &domain.Error{Kind: domain.NotFound, Code: domain.PresetNotFound, Message: message, Err: ErrNoPreset}
}
