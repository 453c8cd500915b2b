package domain

import (
	"context"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain/internal/cache"
)

const (
	// cachedKeyCost is the memory of a key besides its scope.
	cachedKeyCost = 512
	// cachedAnswerCost is the memory of an answer besides its JSON and its answerKey.
	cachedAnswerCost = 384
)

// answerKey is the key of a cached answer.
type answerKey struct {
	what answerKind
	// workspace is the id or slug of a workspace. slug is that of a preset in it.
	workspace, slug string
	filter          PresetFilter // one of the constants: needs no clone
	search          string       // of a PresetQuery
	page            Page
}

// clone returns k with copies of its strings. Those of a request share memory with its
// whole first line, which would stay in memory with them.
func (k answerKey) clone() answerKey {
	k.workspace, k.slug, k.search = strings.Clone(k.workspace), strings.Clone(k.slug), strings.Clone(k.search)
	return k
}

func (k answerKey) cost() int {
	return cachedAnswerCost + len(k.workspace) + len(k.slug) + len(k.search)
}

// readAnswer reads the answer and caches it under k. read also returns the size of the answer in
// bytes. Callers look into the cache first: a closure costs an allocation.
func readAnswer[V any](ctx context.Context, s *Service, answers *cache.Cache[answerKey, Stamp, V], k answerKey, stamp Stamp, read func(Reader) (V, int, error)) (V, error) {
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
	answers.Put(k.clone(), stamp, answer, k.cost()+size)
	return answer, nil
}

// answerKind is the kind of object that an answerKey is about.
type answerKind byte

const (
	workspaceKind answerKind = iota
	ownWorkspaceKind
	workspacesKind
	presetKind
	presetsKind
)
