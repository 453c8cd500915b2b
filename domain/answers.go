package domain

import (
	"context"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain/internal/cache"
)

const (
	// cachedKeyCost is the memory of a key besides its scope.
	cachedKeyCost = 512
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

// readAnswer reads the answer to q and caches it. read also returns the size of the answer in
// bytes. Callers look into the cache first: a closure costs an allocation.
func readAnswer[V any](ctx context.Context, s *Service, answers *cache.Cache[question, Stamp, V], q question, stamp Stamp, read func(Reader) (V, int, error)) (V, error) {
	var answer V
	var size int
	err := s.store.View(ctx, func(r Reader) (err error) {
		answer, size, err = read(r)
		return err
	})
	if err != nil {
		var none V
		return none, err
	}
	answers.Put(q.clone(), stamp, answer, q.cost()+size)
	return answer, nil
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
