package records_test

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// memory is an engine of its own kind: a map. It is not isolated: View and Update may be
// nested.
type memory struct {
	mu     sync.Mutex // guards stored
	stored map[string][]byte
	// failed is the error of all reads after the first passes reads.
	failed error
	passes int
}

func newMemory() *memory { return &memory{stored: map[string][]byte{}} }

func (m *memory) View(_ context.Context, fn func(*records.Reader) error) error {
	r := records.NewReader(m)
	defer r.End()
	return fn(r)
}

func (m *memory) Update(_ context.Context, fn func(*records.Tx) error) error {
	var stage records.Stage
	stage.Reset()
	if err := records.NewTx(m, &stage).Run(fn); err != nil {
		return err
	}
	for k, w := range stage.Writes {
		m.set(k, w.Record)
	}
	return nil
}

func (m *memory) set(k string, record []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if record == nil {
		delete(m.stored, k)
		return
	}
	m.stored[k] = record
}

func (m *memory) view(t *testing.T, fn func(domain.Reader) error) error {
	t.Helper()
	return m.View(t.Context(), func(r *records.Reader) error { return fn(r) })
}

func (m *memory) update(t *testing.T, fn func(domain.Tx) error) error {
	t.Helper()
	return m.Update(t.Context(), func(tx *records.Tx) error { return fn(tx) })
}

// fail counts a read and returns its error.
func (m *memory) fail() error {
	if m.failed == nil {
		return nil
	}
	if m.passes--; m.passes >= 0 {
		return nil
	}
	return m.failed
}

func (m *memory) Get(k records.Key) ([]byte, error) {
	if err := m.fail(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	record, ok := m.stored[string(k)]
	if !ok {
		return nil, domain.ErrNotFound
	}
	return record, nil
}

func (m *memory) Iterate(prefix records.Key) records.Iterator {
	it := &iterator{memory: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range maps.Keys(m.stored) {
		if bytes.HasPrefix([]byte(k), prefix) {
			it.all = append(it.all, k)
		}
	}
	slices.Sort(it.all)
	return it
}

type iterator struct {
	*memory
	all []string
	at  int
	err error
}

func (i *iterator) Seek(k records.Key) {
	i.at, _ = slices.BinarySearch(i.all, string(k))
	i.err = i.fail()
}

func (i *iterator) Next() {
	i.at++
	i.err = i.fail()
}

func (i *iterator) Valid() bool      { return i.err == nil && i.at < len(i.all) }
func (i *iterator) Key() records.Key { return records.Key(i.all[i.at]) }
func (i *iterator) Value() ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stored[i.all[i.at]], nil
}
func (i *iterator) Err() error { return i.err }
func (i *iterator) Close()     {}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func newWorkspace(slug string) domain.Workspace {
	return domain.Workspace{
		ID: newID(), Name: slug, Slug: slug, IOLoggingSamplingRate: 1,
		CreatedAt: time.Now().UTC(), CreatedBy: "test",
	}
}

func newPreset(workspaceID, slug string) domain.Preset {
	return domain.Preset{ID: newID(), WorkspaceID: workspaceID, Slug: slug, Status: domain.PresetActive, LatestVersion: 1}
}
