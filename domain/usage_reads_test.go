package domain_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// withUsage puts so many rows of the default workspace's requests without a preset.
func (f *fixture) withUsage(t *testing.T, rows int) {
	t.Helper()
	err := f.store.Update(t.Context(), func(tx domain.Tx) error {
		home, err := tx.WorkspaceID("default")
		for hour := range rows {
			id := domain.UsageID{WorkspaceID: home, Start: time.Unix(int64(hour)*3600, 0)}
			err = errors.Join(err, tx.PutUsage(domain.UsageRow{UsageID: id, Node: uuid.NewString(), Content: []byte("x")}))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var allUsage = domain.UsageRange{To: time.Unix(1<<31, 0)}

// Reports take turns, so that clients cannot make the server hold many at once.
func TestReportsTakeTurns(t *testing.T) {
	f := newFixture(t)
	f.withUsage(t, 1)
	const clients = 6
	var running, most atomic.Int32
	begun, release, done := make(chan struct{}, clients), make(chan struct{}), make(chan error)
	read := func(iter.Seq2[domain.UsageRow, error]) error {
		if now := running.Add(1); now > most.Load() {
			most.Store(now)
		}
		begun <- struct{}{}
		<-release
		running.Add(-1)
		return nil
	}
	for range clients {
		go func() { done <- f.WorkspaceUsage(t.Context(), admin, "default", allUsage, read) }()
	}
	for range clients / 2 {
		<-begun
		<-begun
		release <- struct{}{}
		release <- struct{}{}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	if got := most.Load(); got != 2 {
		t.Errorf("%d reports were made at the same time, want 2", got)
	}
	panics := func() {
		defer func() { _ = recover() }()
		_ = f.WorkspaceUsage(t.Context(), admin, "default", allUsage, func(iter.Seq2[domain.UsageRow, error]) error { panic("x") })
	}
	for range 3 { // each gives its turn back
		panics()
	}
	if err := f.WorkspaceUsage(t.Context(), admin, "default", allUsage, func(iter.Seq2[domain.UsageRow, error]) error { return nil }); err != nil {
		t.Errorf("after panics: %v", err)
	}
}

// A report ends when its time is over, or when the client leaves.
func TestReportsEnd(t *testing.T) {
	f := newFixture(t)
	f.withUsage(t, 10)
	f.put(t, "p", "{}", nil)
	ctx, leave := context.WithCancel(t.Context())
	seen := 0
	err := f.WorkspaceUsage(ctx, admin, "default", allUsage, func(rows iter.Seq2[domain.UsageRow, error]) error {
		for _, err := range rows {
			if err != nil {
				return err
			}
			if seen++; seen == 3 {
				leave()
			}
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || seen != 3 {
		t.Errorf("got %d rows and error %v, want the end of the context after 3", seen, err)
	}
	f.LimitReports(-time.Second)
	none := func(iter.Seq2[domain.UsageRow, error]) error { return nil }
	wantKind(t, f.WorkspaceUsage(t.Context(), admin, "default", allUsage, none), domain.Unavailable, "The report took too long")
	wantKind(t, f.PresetUsage(t.Context(), user, "", "p", allUsage, none), domain.Unavailable, "The report took too long")
}
