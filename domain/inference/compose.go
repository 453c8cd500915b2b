package inference

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// sharedSize returns the length of the large texts that take no memory of their own. They are
// parts of the request's body or of a cached preset. Others were made for this request.
func (m *merger) sharedSize() (size int) {
	add := func(text jsontext.Value) {
		if len(text) >= draft.LargeText {
			size += len(text)
		}
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		isShared, at := isSameMemory(p.Value, rawjson.Find(m.sent, p.Name)) || isSameMemory(p.Value, m.rules.Setting(p.Name)), 0
		for _, e := range p.Edits {
			if isShared {
				add(p.Value[at:e.Begin])
			}
			for _, text := range e.Texts {
				if m.settings.template == nil { // it is of the preset's prompt
					add(text)
				}
			}
			at = e.End
		}
		if isShared {
			add(p.Value[at:])
		}
	}
	return size
}

// isSameMemory reports whether two values are the same bytes in memory, and not empty.
func isSameMemory(a, b jsontext.Value) bool {
	return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0]
}
