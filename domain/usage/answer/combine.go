package answer

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// summary has the usage of an answer's events together, or of its body.
type summary struct {
	model        string
	usage        figures
	final        bool // usage has its final counts
	broken       bool // the last event with usage cannot be read
	failed       bool
	bare         bool // Seen.Bare
	ended        bool // the last event of a stream has passed
	firstContent time.Time
}

// bodyMembers are the members of a body that matter. The last ones have what was asked for.
var bodyMembers = [...]string{"model", "usage", "error", "status", "type", "choices", "output", "content", "data"}

// addBody takes the usage of a JSON body.
func (s *summary) addBody(d domain.Dialect, body jsontext.Value) {
	var found [len(bodyMembers)]jsontext.Value
	rawjson.Pick(body, bodyMembers[:], found[:])
	model, usage, mistake, status, kind, rest := found[0], found[1], found[2], found[3], found[4], found[5:]
	s.model, _ = rawjson.Text(model)
	s.setUsage(d, usage, true)
	s.failed = isError(mistake) || rawjson.IsText(status, "failed") || kindNamed(kind) == errorKind
	s.bare = s.failed && !slices.ContainsFunc(rest, func(member jsontext.Value) bool { return member != nil })
}

// add takes over what an event of a stream says, which passed at now.
func (s *summary) add(d domain.Dialect, event jsontext.Value, k eventKind, now time.Time) {
	s.failed = s.failed || k == errorKind || k == failedKind || isError(rawjson.Get(event, "error"))
	if s.firstContent.IsZero() && contentSize(event, contentNames, maxContentDepth) > 0 {
		s.firstContent = now
	}
	switch d {
	case domain.Chat, domain.Images:
		s.setModel(event, nil, false)
		s.setUsage(d, rawjson.Get(event, "usage"), true)
	case domain.Responses:
		inner, isLast := rawjson.Get(event, "response"), k == completedKind || k == failedKind
		s.setModel(event, inner, isLast)
		if isLast {
			s.setUsage(d, rawjson.Get(inner, "usage"), true)
		}
	case domain.Messages:
		switch usage := rawjson.Get(event, "usage"); {
		case k == startKind:
			inner := rawjson.Get(event, "message")
			s.setModel(event, inner, false)
			s.setUsage(d, rawjson.Get(inner, "usage"), false)
		case k == deltaKind && usage != nil:
			s.usage.update(figuresOf(d, usage))
			s.final = true
		}
	}
}

// setModel sets the model, unless it is set already and this is not the last word. LiteLLM has its own
// name of the model in each event, which counts, and the provider's within.
func (s *summary) setModel(event, inner jsontext.Value, isLast bool) {
	if s.model == "" || isLast {
		s.model = cmp.Or(textOf(event, "model"), textOf(inner, "model"), s.model)
	}
}

// setUsage adds the usage, unless it is nil.
func (s *summary) setUsage(d domain.Dialect, usage jsontext.Value, final bool) {
	if usage != nil {
		s.usage.update(figuresOf(d, usage))
		s.final, s.broken = final, false
	}
}

// tokens returns the final counts. A failed answer may end before it says them.
func (s *summary) tokens(d domain.Dialect) (Tokens, bool) {
	if s.broken || !s.final && !s.failed {
		return Tokens{}, false
	}
	return s.usage.tokens(d == domain.Messages)
}

// textOf returns a member of an object that is a text, "" for none.
func textOf(object jsontext.Value, name string) string {
	text, _ := rawjson.Text(rawjson.Get(object, name))
	return text
}
