// Package reference reads how an inference request names a preset: in its model, in its field preset, or
// as a prompt of another service. It also reads the request's session.
package reference

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Ref is how a request names a preset. Its model is "@preset/slug", "provider/@preset/slug" or
// "model@preset/slug", its preset field is "slug", or it has a prompt (see
// Prompt).
type Ref struct {
	Slug string
	// Pin is a version's number or a label, written behind a second @. It is empty for
	// the designated version.
	Pin string
}

// String returns the reference as it is written in a model's name.
func (ref Ref) String() string {
	if ref.Pin == "" {
		return domain.ReferenceMark + ref.Slug
	}
	return domain.ReferenceMark + ref.Slug + "@" + ref.Pin
}

// maxPin bounds the text behind the second @ of a reference, in bytes.
const maxPin = 128

// parseReference reads slug, slug@version or slug@label. Errors name place.
func parseReference(place, text string) (ref Ref, err error) {
	slug, pin, pinned := strings.Cut(text, "@")
	if domain.CheckPresetSlug(slug) != nil || pinned && !domain.IsSlug(pin, maxPin) {
		return ref, domain.InvalidAt(place, "must name a preset by its slug, slug@version or slug@label")
	}
	return Ref{slug, pin}, nil
}

// MaxRequestFields bounds the top-level fields of a request that names a preset. The
// dialects have far fewer.
const MaxRequestFields = 256

// MaxReference bounds a model or a field preset that names a preset, in bytes.
const MaxReference = dialects.MaxModel

// usualFields is how many fields need no memory besides that of a Request.
const usualFields = 16

// ErrTooManyFields is for a request of more than MaxRequestFields.
var ErrTooManyFields = domain.InvalidAt("", "has more than "+strconv.Itoa(MaxRequestFields)+" fields")

// Request is the part of an inference request that was read.
type Request struct {
	// Dialect is set before Read.
	Dialect domain.Dialect
	// Fields are the top-level fields in the order in which they were sent.
	Fields []rawjson.Member
	// Err is the first error: of the JSON, or of a rule.
	Err error
	// SessionID is the session_id field, or empty.
	SessionID string

	// Found tells that there is a reference, ModelIsReference that it is in the model
	// field. Model is the model that Cut finds before it there.
	Found            bool
	Ref              Ref
	Model            string
	ModelIsReference bool
	Prompt           *Prompt // never nil

	usual [usualFields]rawjson.Member // memory for fields
}

// Read reads the fields of a request, its reference and its session. It stops where the
// body is not JSON: without a reference, the gateway answers that.
func (q *Request) Read(body []byte) {
	q.Prompt, q.Fields = &noPrompt, q.usual[:0]
	for field, err := range dialects.UsualNames.Object(body) {
		if !q.readMember(field, err) {
			break
		}
	}
	q.resolvePrompt()
}

// readMember reads a field, or an error in its place. It returns false if no later field
// changes the answer.
func (q *Request) readMember(field rawjson.Member, err error) bool {
	switch {
	case err == nil && len(q.Fields) < MaxRequestFields && !q.has(field.Name):
		q.Fields = append(q.Fields, field) // also behind an error: a reference may follow, or the model
	case q.Err != nil: // the first error counts
	case err != nil:
		q.setError(domain.InvalidAt("", err.Error()))
	case len(q.Fields) == MaxRequestFields:
		q.setError(ErrTooManyFields)
	default:
		q.setError(domain.InvalidAt(dialects.Pointer(field.Name), "duplicate name"))
	}
	if err != nil || q.Err != nil && q.Found {
		return false
	}
	q.readField(field)
	return true
}

// has reports whether a field of a name was read.
func (q *Request) has(name string) bool {
	isCut := len(name) > rawjson.MaxName // and no gateway knows it
	return !isCut && slices.ContainsFunc(q.Fields, func(f rawjson.Member) bool { return f.Name == name })
}

func (q *Request) setError(err error) {
	if q.Err == nil {
		q.Err = err
	}
}

// readField reads a field that may name a preset or a session.
func (q *Request) readField(field rawjson.Member) {
	if IsPromptField(q.Dialect, field.Name) {
		if q.Prompt == &noPrompt {
			q.Prompt = new(Prompt)
		}
		q.Prompt.readField(field)
		return
	}
	switch field.Name {
	case "session_id":
		q.SessionID, _ = rawjson.Head(field.Value, utf8.UTFMax*maxSessionID) // a cut one is too long
		if kind := field.Value.Kind(); kind != '"' && kind != 'n' {
			q.setError(domain.InvalidAt("/session_id", "must be a string"))
		} else {
			q.setError(CheckSessionID("/session_id", q.SessionID))
		}
	case "preset":
		if field.Value.Kind() == 'n' {
			return // not sent
		}
		text, ok := rawjson.Head(field.Value, MaxReference) // what is cut names no preset
		if !ok {
			q.rejectReference(domain.InvalidAt("/preset", "must be a string"))
			return
		}
		q.setReference("/preset", text)
	case "model":
		if IsReference(field.Value) {
			q.readModel(field.Value)
		}
	case "models", "fallbacks":
		// A reference cannot be resolved here: the gateway chooses from the list.
		if place := findReferenceIn(field); place != "" {
			q.rejectReference(domain.InvalidAt(place, "must not refer to a preset"))
		}
	}
}

// readModel reads a model that refers to a preset.
func (q *Request) readModel(model jsontext.Value) {
	q.ModelIsReference = true
	text, _ := rawjson.Head(model, MaxReference)
	if len(text) > MaxReference {
		q.rejectReference(domain.InvalidAt("/model", fmt.Sprintf("must be at most %d bytes if it refers to a preset", MaxReference)))
		return
	}
	q.Model, text, _ = Cut(text)
	if !isUsableModel(q.Model) {
		q.rejectReference(domain.InvalidAt("/model", "must have the name of a model before "+domain.ReferenceMark+", or nothing at all"))
		return
	}
	q.setReference("/model", text)
}

// VersionText returns how logs and answers write the version that served a request. 0 is one that is not stored.
func VersionText(version int) string {
	if version == 0 {
		return "unsaved"
	}
	return strconv.Itoa(version)
}

// Cut splits a model's name that refers to a preset. model is the text before the reference, and
// empty for a provider alone: clients write "openai/@preset/slug" where a name needs a provider.
// ref is the slug, with its pin. found is false for a name without a reference.
func Cut(name string) (model, ref string, found bool) {
	model, ref, found = strings.Cut(name, domain.ReferenceMark)
	if provider, ok := strings.CutSuffix(model, "/"); ok && provider != "" && isUsableModel(provider) {
		model = ""
	}
	return model, ref, found
}

// NameForClaude returns the name of a preset that is kept by the model picker of Claude Code, which
// shows only names with "claude" or "anthropic" in them. model is the preset's own. Claude Code
// derives the abilities of a model from its name, so the model is in it where possible. A request with
// the name acts as one with ref alone, as long as the preset runs that model.
func (ref Ref) NameForClaude(model string) string {
	name, lower := model+ref.String(), strings.ToLower(model)
	if !strings.Contains(lower, "claude") && !strings.Contains(lower, "anthropic") || !isUsableModel(model) || len(name) > MaxReference {
		return "anthropic/" + ref.String()
	}
	return name
}

// isUsableModel reports whether the text before a reference is empty or names a model.
// "vendor/" and "vendor/:free" name none.
func isUsableModel(name string) bool {
	last, _, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	return name == "" || strings.TrimSpace(last) != ""
}

// FindReference returns the JSON Pointer (RFC 6901) of the first model in a body that
// refers to a preset, or "". It looks in model, models, fallbacks and the requests of a
// batch, and ignores the field preset. It stops where the body is not JSON.
func FindReference(body []byte) (place string) {
	if !dialects.MayContain(body, "preset") {
		return ""
	}
	for field, err := range dialects.UsualNames.Object(body) {
		if err != nil {
			return ""
		}
		if place := findReferenceIn(field); place != "" {
			return place
		}
	}
	return ""
}

// modelsWithin are the fields with a list of models. The members lead from an element of
// the list to its model.
var modelsWithin = map[string][]string{
	"models":    {},
	"fallbacks": {"model"},           // of a messages request
	"requests":  {"params", "model"}, // of a batch of them
}

// findReferenceIn returns the place in a field where a model refers to a preset, or "".
func findReferenceIn(field rawjson.Member) string {
	if field.Name == "model" {
		if IsReference(field.Value) {
			return "/model"
		}
		return ""
	}
	path, ok := modelsWithin[field.Name]
	if !ok || !dialects.MayContain(field.Value, "preset") {
		return ""
	}
	for index, element := range rawjson.Items(field.Value) {
		place := func(below ...string) string {
			return "/" + strings.Join(append([]string{field.Name, strconv.Itoa(index)}, below...), "/")
		}
		switch {
		case IsReference(element): // some gateways take a name for an element
			return place()
		case IsReference(rawjson.At(element, path...)):
			return place(path...)
		}
	}
	return ""
}

// IsReference reports whether a model is a reference to a preset.
func IsReference(model jsontext.Value) bool { return rawjson.Contains(model, domain.ReferenceMark) }

// setReference stores the reference. A second, different one is an error.
func (q *Request) setReference(place, text string) {
	ref, err := parseReference(place, text)
	if err != nil {
		q.rejectReference(err)
	}
	q.addReference(place, ref)
}

func (q *Request) addReference(place string, ref Ref) {
	if q.Found && q.Ref != ref {
		q.rejectReference(domain.InvalidAt(place, "must name the same preset as the request's other reference"))
	}
	q.Found, q.Ref = true, ref
}

// rejectReference stores why the reference cannot be resolved.
func (q *Request) rejectReference(err error) {
	q.Found = true
	q.setError(err)
}

// ErrNoPreset tells a preset that does not exist from one that is not active.
var ErrNoPreset = errors.New("no preset has the slug")
