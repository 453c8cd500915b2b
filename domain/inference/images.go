package inference

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// takeForImages prepares a stored version for requests for images. They have no place for a system prompt or a
// template.
func (s *settings) takeForImages(v domain.PresetVersion, stored []rawjson.Member, unknown map[string]bool) {
	s.fields, s.dropped = dialects.TranslateToImages(stored, unknown)
	if v.SystemPrompt != nil && *v.SystemPrompt != "" {
		s.dropped = append(s.dropped, "system_prompt")
	}
	if v.Template != nil {
		s.dropped = append(s.dropped, "template")
	}
}

// tellUntaken adds a setting of images to Resolution.Dropped that the route does not take. Nothing else would
// tell that it has no effect.
func (m *merger) tellUntaken(name string) {
	if m.rules.Dialect == domain.Images && !m.rules.TakesField(name) && m.Index(name) < 0 {
		m.dropped = append(m.dropped, name)
	}
}

// modelOfImages returns the model of requests for images, empty for none. On the routes of text, the model of
// text can stand in for it.
func (w *workspaceDefaults) modelOfImages(dialect domain.Dialect) string {
	if dialect == domain.Images {
		return w.imageModel
	}
	return cmp.Or(w.imageModel, w.textModel)
}

// asksForImages reports whether a merged request asks for images. A field that the gateway does not know, or the
// route does not take, counts, although it does not go upstream.
func (m *merger) asksForImages() bool {
	const name = "modalities"
	asked := m.Value(name)
	if asked == nil && (m.unknown[name] || !m.rules.TakesField(name)) {
		if asked = rawjson.Find(m.request.Fields, name); asked == nil {
			asked = rawjson.Find(m.settings.fields, name)
		}
	}
	return m.rules.Dialect == domain.Images || hasImage(asked)
}

// hasImage reports whether a list of modalities has images.
func hasImage(modalities jsontext.Value) bool {
	for _, one := range rawjson.Items(modalities) {
		if rawjson.IsText(one, "image") {
			return true
		}
	}
	return false
}

// fillImageModel gives a request for images that names neither a preset nor a model the model of its workspace, if
// that has one. All else in out.Body stays as it is. A prompt of the gateway may have a model of its own.
func (m *merger) fillImageModel(out *Resolution, sent Request) error {
	q := &m.request
	if m.workspace == nil || m.workspace.imageModel == "" || q.Found || q.Err != nil || sent.OtherType {
		return nil
	}
	isModel := func(f rawjson.Member) bool { return f.Name == "model" }
	model := rawjson.Find(q.Fields, "model")
	isMissing := (model == nil || rawjson.IsText(model, "")) && firstModel(rawjson.Find(q.Fields, "models")) == nil
	isForImages := sent.Dialect == domain.Images || sent.Takes == nil && hasImage(rawjson.Find(q.Fields, "modalities"))
	if !isMissing || !isForImages {
		return nil
	}
	filled := rawjson.NewMember("model", rawjson.Quote(m.workspace.imageModel))
	if i := slices.IndexFunc(q.Fields, isModel); i < 0 {
		member := append(slices.Concat(filled.Quoted, jsontext.Value{':'}, filled.Value), ',')
		if len(q.Fields) == 0 {
			member = member[:len(member)-1]
		}
		begin := bytes.IndexByte(sent.Body, '{') + 1
		out.Body = replaceIn(out.Body, sent.Body, begin, begin, member)
	} else {
		begin := rawjson.Offset(sent.Body, q.Fields[i].Value)
		out.Body = replaceIn(out.Body, sent.Body, begin, begin+len(q.Fields[i].Value), filled.Value)
	}
	out.Rewritten, out.filled = true, true
	q.Fields = append(slices.DeleteFunc(q.Fields, isModel), filled)
	return m.rules.CheckTools(q.Fields)
}

// replaceIn puts a text in the place of sent from begin to end. body is sent, or a beginning and an end of it with
// another text between, and has that place.
func replaceIn(body draft.Body, sent []byte, begin, end int, text jsontext.Value) draft.Body {
	if first := body[0]; end <= len(first) {
		return slices.Concat(draft.Body{first[:begin], text, first[end:]}, body[1:])
	}
	last := body[len(body)-1]
	skipped := len(sent) - len(last)
	return slices.Concat(body[:len(body)-1], draft.Body{last[:begin-skipped], text, last[end-skipped:]})
}
