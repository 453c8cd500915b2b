package domain

import "strings"

const (
	// maxCachedKeys bounds the keys that a Service caches.
	maxCachedKeys = 4096
	cachedKeyCost = 512
	// maxCachedObjects and maxCachedPages bound cached answers, in bytes.
	maxCachedObjects = 32 << 20
	maxCachedPages   = 16 << 20
	// cachedAnswerCost is the memory of an answer besides its JSON and its question.
	cachedAnswerCost = 384
)

// question is the key of a cached answer.
type question struct {
	what subject
	// workspace is the id or slug of a workspace. slug is that of a preset in it.
	workspace, slug string
	filter          PresetFilter // one of the constants: needs no clone
	search          string       // of a PresetQuery
	page            Page
}

// clone returns q with copies of its strings. Those of a request share memory with its
// whole first line, which would stay in memory with them.
func (q question) clone() question {
	q.workspace, q.slug, q.search = strings.Clone(q.workspace), strings.Clone(q.slug), strings.Clone(q.search)
	return q
}

func (q question) cost() int {
	return cachedAnswerCost + len(q.workspace) + len(q.slug) + len(q.search)
}

// keepObject caches the object that q asks for and returns it with its tag.
func (s *Service) keepObject(q question, stamp Stamp, found Found) Found {
	found = tagged(found)
	s.objects.Put(q.clone(), stamp, found, q.cost()+len(found.JSON))
	return found
}

// keepPage caches the page that q asks for and returns it with its tag.
func (s *Service) keepPage(q question, stamp Stamp, text []byte, total int) Listed {
	list := listed(text, total)
	s.pages.Put(q.clone(), stamp, list, q.cost()+len(text))
	return list
}

// subject is the kind of object that a question is about.
type subject byte

const (
	aWorkspace subject = iota
	ownWorkspace
	allWorkspaces
	aPreset
	allPresets
)
