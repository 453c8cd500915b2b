package records

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
)

const (
	// PurgeBatch is the maximum number of records removed at once. Waiting changes go into
	// the same commit, so a batch costs about as much as one change.
	PurgeBatch = 128

	// purgeRetry is the wait after a failure, for example of a full disk.
	purgeRetry = time.Minute
)

// Purger removes the content of deleted workspaces and presets in batches. The record of the deletion
// goes last, so the next process continues an interrupted purge.
type Purger struct {
	// View runs fn with a snapshot of the store and returns its error.
	View func(ctx context.Context, fn func(*Reader) error) error
	// Update runs fn and makes its writes durable, like that of domain.Store.
	Update func(ctx context.Context, fn func(*Tx) error) error
	// Deleted holds a token if workspaces or presets may have been deleted since the last one was
	// taken.
	Deleted <-chan struct{}
	// Interval is the time after which Run looks again without a token, 0 for never.
	// Engines that several nodes share need it: a node may die before it has purged a
	// workspace that it deleted.
	Interval time.Duration
	// Logger gets the errors.
	Logger *zap.Logger
}

// Run removes the content of deleted workspaces and presets. It looks again after each deletion and
// each Interval. It returns when ctx ends or the store is closed. It logs other errors and
// tries again after a minute.
func (p Purger) Run(ctx context.Context) {
	for {
		var again <-chan time.Time
		if p.Interval > 0 {
			again = time.After(p.Interval)
		}
		switch err := p.purgeAll(ctx); {
		case ctx.Err() != nil || errors.Is(err, domain.ErrClosed):
			return
		case err != nil:
			p.Logger.Warn("removing what deleted workspaces and presets had; will try again", zap.Error(err), zap.Duration("after", purgeRetry))
			again = time.After(purgeRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.Deleted:
		case <-again:
		}
	}
}

// purgeAll purges what is deleted by now. Nothing is added to a deleted workspace or preset, so one snapshot
// shows all of its content.
func (p Purger) purgeAll(ctx context.Context) error {
	return p.View(ctx, func(r *Reader) error {
		for k, err := range each(r, KindDeleted.Prefix(), keyAt) {
			if err != nil {
				return err
			}
			b := removal{ctx: ctx, update: p.Update}
			err := p.purge(r, &b, uuid.UUID(k[2:]))
			if err == nil {
				err = b.add(k)
			}
			if err == nil {
				err = b.commit()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// purge removes the content of one workspace, or what is left of one preset. A preset of the workspace goes
// after its versions and labels, because only the preset leads to them.
func (p Purger) purge(r *Reader, b *removal, workspace uuid.UUID) error {
	if err := cmp.Or(b.addPreset(r, workspace), b.addReplays(r, workspace)); err != nil {
		return err
	}
	for k, err := range each(r, KindPreset.under(workspace), keyAt) {
		if err != nil {
			return err
		}
		preset, err := load(r, k, parsePreset)
		if errors.Is(err, storage.ErrDamaged) {
			p.Logger.Warn("the versions of a preset that was deleted with its workspace cannot be found and stay stored", zap.Error(err))
		} else if err != nil {
			return err
		}
		if id, ok := parseID(preset.ID); ok {
			if err := b.addPreset(r, id); err != nil {
				return err
			}
		}
		if err := b.add(k); err != nil {
			return err
		}
	}
	l := append(list{byte(KindPreset)}, workspace[:]...)
	for _, prefix := range []Key{KindUsage.under(workspace), KindServed.under(workspace), l.blockPrefix(), l.headKey()} {
		if err := b.addAll(r, prefix); err != nil {
			return err
		}
	}
	return nil
}

// removal removes records in the order in which they are added.
type removal struct {
	ctx    context.Context
	update func(context.Context, func(*Tx) error) error
	keys   []Key
}

// addPreset adds what a preset has below its id.
func (b *removal) addPreset(r *Reader, id uuid.UUID) error {
	for _, of := range []Kind{KindVersion, KindLabel, KindLabelChange, KindSpent, KindInput} {
		if err := b.addAll(r, of.under(id)); err != nil {
			return err
		}
	}
	return nil
}

// addReplays adds the answers that were kept and show the preset or the workspace of an id. They have its text.
func (b *removal) addReplays(r *Reader, id uuid.UUID) error {
	for k, err := range each(r, KindReplay.Prefix(), keyAt) {
		if err != nil {
			return err
		}
		replay, err := load(r, k, decodeReplay)
		if err == nil && bytes.Contains(replay.Answer, []byte(id.String())) {
			err = b.add(k)
		}
		if err != nil && !errors.Is(err, storage.ErrDamaged) && !errors.Is(err, domain.ErrNotFound) {
			return err
		}
	}
	return nil
}

func (b *removal) addAll(r *Reader, prefix Key) error {
	for k, err := range each(r, prefix, keyAt) {
		if err == nil {
			err = b.add(k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *removal) add(k Key) error {
	b.keys = append(b.keys, k)
	if len(b.keys) < PurgeBatch {
		return nil
	}
	return b.commit()
}

func (b *removal) commit() error {
	err := b.update(b.ctx, func(t *Tx) error {
		for _, k := range b.keys {
			if err := t.write(k, nil, nil); err != nil {
				return err
			}
		}
		return nil
	})
	b.keys = b.keys[:0]
	return err
}
