package answer

import (
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// summary has the usage of an answer's events together, or of its body.
type summary struct {
	model        name
	usage        figures
	final        bool // usage has its final counts
	broken       bool // the last event with usage cannot be read
	failed       bool
	ended        bool // the last event of a stream has passed
	firstContent time.Time
}

// addBody takes the usage of a JSON body.
func (s *summary) addBody(e *event) {
	s.model, s.usage, s.final = e.outer.model, e.outer.usage, true
	s.failed = e.error || e.failed || e.kind == errorKind
}

// add takes over what an event of a stream says, which passed at now.
func (s *summary) add(d domain.Dialect, e *event, k eventKind, now time.Time) {
	if e.error || k == errorKind || k == failedKind {
		s.failed = true
	}
	if e.content && s.firstContent.IsZero() {
		s.firstContent = now
	}
	switch d {
	case domain.Chat:
		s.setModel(&e.outer)
		if e.outer.usage.said {
			s.replace(&e.outer.usage, true)
		}
	case domain.Responses:
		terminal := k == completedKind || k == failedKind
		if terminal && e.named().model.len > 0 {
			s.model.len = 0 // the last word
		}
		s.setModel(e.named())
		if terminal && e.in.usage.said {
			s.replace(&e.in.usage, true)
		}
	case domain.Messages:
		if k == startKind {
			s.setModel(e.named())
			if e.in.usage.said {
				s.replace(&e.in.usage, false)
			}
		}
		if k == deltaKind && e.outer.usage.said {
			if !s.usage.said {
				s.usage.begin('{')
			}
			s.usage.update(&e.outer.usage)
			s.final = true
		}
	}
}

// setModel sets the model to that of p, unless it is set already.
func (s *summary) setModel(p *part) {
	if s.model.len == 0 && p.model.len > 0 {
		s.model = p.model
	}
}

func (s *summary) replace(f *figures, final bool) {
	s.usage, s.final, s.broken = *f, final, false
}

// tokens returns the final counts. A failed answer may end before it says them.
func (s *summary) tokens(d domain.Dialect) (Tokens, bool) {
	if s.broken || !s.final && !s.failed {
		return Tokens{}, false
	}
	return s.usage.tokens(d == domain.Messages)
}
