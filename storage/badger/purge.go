package badger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// purgeBatch is how many records are removed at once. Changes that wait
	// meanwhile go into the same commit, so it is about what one of them costs.
	purgeBatch = 128

	// purgeRetry is how long to wait after a failure, as of a full disk.
	purgeRetry = time.Minute
)

// purger removes, little by little, what was in workspaces that were deleted. The
// record that says so of a workspace goes last, so what one process leaves undone
// the next one does.
type purger struct {
	store *Store
	log   *zap.Logger
	stop  context.CancelFunc
	done  chan struct{}
}

func startPurger(s *Store, log *zap.Logger) *purger {
	ctx, stop := context.WithCancel(context.Background())
	p := &purger{store: s, log: log, stop: stop, done: make(chan struct{})}
	go p.run(ctx)
	return p
}

func (p *purger) run(ctx context.Context) {
	defer close(p.done)
	for {
		var retry <-chan time.Time
		switch err := p.purgeAll(ctx); {
		case ctx.Err() != nil || errors.Is(err, domain.ErrClosed) || errors.Is(err, ErrStopped):
			return
		case err != nil:
			p.log.Warn("removing what was in deleted workspaces; will try again", zap.Error(err), zap.Duration("after", purgeRetry))
			retry = time.After(purgeRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.store.committer.deleted:
		case <-retry:
		}
	}
}

// purgeAll purges the workspaces that are deleted by now. Nothing is added to any
// of them meanwhile, so one snapshot shows all there is to remove.
func (p *purger) purgeAll(ctx context.Context) error {
	txn := p.store.db.NewTransaction(false)
	defer txn.Discard()
	r := &reader{txn: txn}
	return r.walk(newKey(kindDeleted, 0), func(c *cursor) error {
		for ; c.key != nil; c.next() {
			b := removal{ctx: ctx, store: p.store}
			err := p.purge(r, &b, uuid.UUID(c.key[2:]))
			if err == nil {
				err = b.add(c.key)
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

// purge removes what was in one workspace. A preset goes after its versions and
// labels, which only it leads to.
func (p *purger) purge(r *reader, b *removal, workspace uuid.UUID) error {
	err := r.walk(append(newKey(kindPreset, len(workspace)), workspace[:]...), func(c *cursor) error {
		for ; c.key != nil; c.next() {
			preset, err := decodeAt(c, parsePreset)
			if errors.Is(err, ErrDamaged) {
				p.log.Warn("the versions of a preset that was deleted with its workspace cannot be found and stay stored", zap.Error(err))
			} else if err != nil {
				return err
			}
			if id, ok := parseID(preset.ID); ok {
				for _, of := range []kind{kindVersion, kindLabel, kindLabelChange} {
					if err := b.addAll(r, append(newKey(of, len(id)), id[:]...)); err != nil {
						return err
					}
				}
			}
			if err := b.add(c.key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, of := range []kind{kindPlace, kindLeaf, kindNode, kindListEnd} {
		prefix := append(newKey(of, 1+len(workspace)), byte(kindPreset))
		if err := b.addAll(r, append(prefix, workspace[:]...)); err != nil {
			return err
		}
	}
	return nil
}

// removal removes records, in the order in which they are added.
type removal struct {
	ctx   context.Context
	store *Store
	keys  []key
}

func (b *removal) addAll(r *reader, prefix key) error {
	return r.walk(prefix, func(c *cursor) error {
		for ; c.key != nil; c.next() {
			if err := b.add(c.key); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *removal) add(k key) error {
	b.keys = append(b.keys, slices.Clone(k))
	if len(b.keys) < purgeBatch {
		return nil
	}
	return b.commit()
}

func (b *removal) commit() error {
	err := b.store.update(b.ctx, func(t *tx) error {
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
