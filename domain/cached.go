package domain

import (
	"context"
	"math"
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

// readAnswer reads the answer and caches it under k. Callers look into the cache first: a
// closure costs an allocation.
func (s *Service) readAnswer(ctx context.Context, k answerKey, stamp Stamp, read func(Reader) (Found, error)) (answer Found, err error) {
	err = s.store.View(ctx, func(r Reader) (err error) {
		answer, err = read(r)
		return err
	})
	if err != nil {
		return Found{}, err
	}
	s.answers.Put(k.clone(), stamp, answer, k.cost()+len(answer.JSON))
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

// DefaultMemory is the limit of the Memory of a new Service, in bytes.
const DefaultMemory = 48 << 20

// Memory bounds what several caches keep: those of Services, and of an inference.Resolver. Each
// takes what the others leave. A cached value costs at least its own size. It is safe for
// concurrent use.
type Memory = cache.Budget

// NewMemory returns a Memory of a limit, in bytes.
func NewMemory(limit int64) *Memory { return cache.NewBudget(int(min(limit, math.MaxInt))) }

// Stamps tell whether a cached copy of a stored object is current, without reading the store. See
// Store.Stamps for what an engine does with them. They also have the revocations of keys that are
// not stored yet, because those are newer than the stored keys. Stamps are safe for concurrent use.
type Stamps struct {
	*cache.Stamps
	revocations revocations
}

// Stamp is the state of an object. Zero is no stamp: the object is being changed, or its
// state is unknown.
type Stamp = cache.Stamp

// Change is a change of the stamps of one or more objects.
type Change = cache.Change

// NewStamps returns the stamps of a store that was just opened.
func NewStamps() *Stamps { return &Stamps{Stamps: cache.NewStamps()} }
