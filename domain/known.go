package domain

import "strings"

const (
	// maxKnownKeys bounds the keys that a Service keeps.
	maxKnownKeys = 4096
	knownKeyCost = 512
	// maxKnownObjects bounds the objects that were shown, and maxKnownPages the
	// pages of lists, in bytes.
	maxKnownObjects = 32 << 20
	maxKnownPages   = 16 << 20
	// knownAnswerCost is what an answer costs besides its JSON and its question.
	knownAnswerCost = 384
)

// question is what an answer that a Service keeps is about.
type question struct {
	what subject
	// workspace is a reference to one, or its id, and slug that of a preset in it.
	workspace, slug string
	filter          PresetFilter // one of the constants, whose text is nobody's
	page            Page
}

// own returns q with strings of its own: those of a request are parts of all of its
// first line, which would stay in memory with them.
func (q question) own() question {
	q.workspace, q.slug = strings.Clone(q.workspace), strings.Clone(q.slug)
	return q
}

func (q question) cost() int { return knownAnswerCost + len(q.workspace) + len(q.slug) }

// found returns the object that q asks for, and listed the page.
func (s *Service) found(q question, stamp Stamp, read func() (Found, error)) (Found, error) {
	if found, ok := s.objects.Get(q, stamp); ok {
		return found, nil
	}
	found, err := read()
	if err != nil {
		return Found{}, err
	}
	found = tagged(found)
	s.objects.Put(q.own(), stamp, found, q.cost()+len(found.JSON))
	return found, nil
}

func (s *Service) listed(q question, stamp Stamp, read func() ([]byte, int, error)) (Listed, error) {
	if list, ok := s.pages.Get(q, stamp); ok {
		return list, nil
	}
	text, total, err := read()
	if err != nil {
		return Listed{}, err
	}
	list := listed(text, total)
	s.pages.Put(q.own(), stamp, list, q.cost()+len(text))
	return list, nil
}

type subject byte

const (
	aWorkspace subject = iota
	ownWorkspace
	allWorkspaces
	aPreset
	allPresets
)
