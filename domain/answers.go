package domain

import (
	"context"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain/internal/cache"
)

const (
	// cachedKeyCost is the memory of a key besides its scope.
	cachedKeyCost = 512
	// cachedAnswerCost is the memory of an answer besides its JSON and its cacheKey.
	cachedAnswerCost = 384
)

// cacheKey is the key of a cached answer.
type cacheKey struct {
	what cacheKind
	// workspace is the id or slug of a workspace. slug is that of a preset in it.
	workspace, slug string
	filter          PresetFilter // one of the constants: needs no clone
	search          string       // of a PresetQuery
	page            Page
}

// clone returns q with copies of its strings. Those of a request share memory with its
// whole first line, which would stay in memory with them.
func (q cacheKey) clone() cacheKey {
	q.workspace, q.slug, q.search = strings.Clone(q.workspace), strings.Clone(q.slug), strings.Clone(q.search)
	return q
}

func (q cacheKey) cost() int {
	return cachedAnswerCost + len(q.workspace) + len(q.slug) + len(q.search)
}

// readAnswer reads the answer to q and caches it. read also returns the size of the answer in
// bytes. Callers look into the cache first: a closure costs an allocation.
func readAnswer[V any](ctx context.Context, s *Service, answers *cache.Cache[cacheKey, Stamp, V], q cacheKey, stamp Stamp, read func(Reader) (V, int, error)) (V, error) {
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

// cacheKind is the kind of object that a cacheKey is about.
type cacheKind byte

const (
	workspaceKind cacheKind = iota
	ownWorkspaceKind
	workspacesKind
	presetKind
	presetsKind
)
