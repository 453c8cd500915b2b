package inference

import (
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// promptMembers are the members of a request that name a prompt.
type promptMembers struct {
	place                  string         // the beginning of each member's JSON Pointer
	id, version, variables jsontext.Value // nil: none
}

// promptReference is how clients of other services name a prompt and give it values. The
// id is a preset's slug.
type promptReference struct {
	openai  promptMembers // of the field prompt
	litellm promptMembers // of the fields prompt_id, prompt_version and prompt_variables
	// err is the first mistake that only counts if the prompt is a preset.
	err error
	// errID is the error for an id that no preset has.
	errID error
	// only tells that the request names no preset in another way.
	only bool

	// variables is the object of values, nil for none. place is its JSON Pointer.
	variables jsontext.Value
	place     string
}

// noPrompt is that of a request without any of the fields. It never changes.
var noPrompt = promptReference{place: "/prompt/variables"}

// isPromptField reports whether a field is for a promptReference.
func isPromptField(name string) bool {
	switch name {
	case "prompt", "prompt_id", "prompt_version", "prompt_variables":
		return true
	}
	return false
}

// hasValues reports whether there is a value for a variable.
func (p *promptReference) hasValues() bool {
	return p.variables != nil && !rawjson.IsEmpty(p.variables)
}

func (p *promptReference) setError(place, message string) {
	if p.err == nil {
		p.err = domain.InvalidAt(place, message)
	}
}

// readField reads a field of the request. null counts as not sent.
func (p *promptReference) readField(field rawjson.Member) {
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
func (p *promptReference) readObject(prompt jsontext.Value) {
	members := map[string]*jsontext.Value{"id": &p.openai.id, "version": &p.openai.version, "variables": &p.openai.variables}
	for quoted, value := range rawjson.Pairs(prompt) {
		name, _ := rawjson.Head(quoted, maxPointed)
		member := members[name]
		switch {
		case value.Kind() == 'n':
		case member == nil:
			p.setError("/prompt"+pointer(name), "is no member of a prompt, which has id, version and variables")
		case *member != nil:
			p.setError("/prompt"+pointer(name), "duplicate name")
		default:
			*member = value
		}
	}
}

// resolvePrompt makes the request's prompt a reference, after all fields were read.
func (q *parsedRequest) resolvePrompt() {
	p := q.prompt
	if p == &noPrompt {
		return
	}
	p.openai.place, p.litellm.place = "/prompt/", "/prompt_"
	p.place = noPrompt.place
	p.only = !q.found
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
		case p.variables != nil:
			p.setError(m.place+"variables", "must not be given beside "+p.place)
		default:
			p.variables, p.place = m.variables, m.place+"variables"
		}
	}
	if !q.found && p.hasValues() {
		p.setError(p.place, "must have a preset beside it")
		q.rejectReference(p.err)
	}
}

// namePrompt stores the reference of a prompt with an id.
func (q *parsedRequest) namePrompt(m promptMembers) {
	p, place := q.prompt, m.place+"id"
	slug, isText := rawjson.Head(m.id, utf8.UTFMax*maxShownID)
	switch {
	case !isText:
		p.errID = domain.InvalidAt(place, "must be a string")
	case domain.CheckPresetSlug(slug) != nil:
		p.errID = errNoPrompt(slug)
	}
	if p.errID != nil {
		if q.found { // the other reference is a different one
			q.setError(p.errID)
		}
		q.found = true
		return
	}
	ref := reference{slug: slug}
	if m.version != nil {
		var ok bool
		if ref.pin, ok = rawjson.Head(m.version, maxPin); m.version.Kind() == '0' {
			var n int
			n, ok = rawjson.Int(m.version)
			ref.pin = strconv.Itoa(n)
		}
		if !ok || !pinPattern.MatchString(ref.pin) {
			p.setError(m.place+"version", "must be the number of a version, or a label")
			ref.pin = ""
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
	return &domain.Error{Kind: domain.NotFound, Code: domain.PresetNotFound, Message: message, Err: errNoPreset}
}
