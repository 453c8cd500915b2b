package quota

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
)

// watchInterval is how often the budgets of all workspaces are read for Budgets, also of those without requests.
const watchInterval = time.Minute

// Budgets calls each with every budget of a workspace of the stores in use, and with the share of it that is used, from 0 to 1.
// A store is named as for Of.
func Budgets(each func(store, workspace string, interval domain.Interval, used float64)) {
	m := momentOf(time.Now())
	keepers.Range(func(store, value any) bool {
		k := value.(*Keeper)
		if k.newest() == nil {
			return true
		}
		k.subjects.Range(func(_, value any) bool {
			s := value.(*subject)
			b := s.bounds.Load()
			if s.scope != OfWorkspace || b == nil {
				return true
			}
			for i, limit := range b.nanos {
				if limit != none {
					used := s.windowOf(i, &m).used().nanos + s.flightNanos.Load()
					each(store.(string), s.id, domain.Intervals[i], min(float64(max(used, 0))/float64(max(limit, 1)), 1))
				}
			}
			return true
		})
		return true
	})
}

// watch reads the budgets of all workspaces.
func (k *Keeper) watch(ctx context.Context, use *Use, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	budgets, err := readBudgets(ctx, use.Store)
	if err != nil {
		if ctx.Err() == nil {
			use.Logger.Warn("reading budgets for metrics failed; will try again", zap.Error(err), zap.Duration("after", watchInterval))
		}
		return
	}
	m := momentOf(now)
	for id, w := range budgets {
		s := k.hold(id, OfWorkspace, id, now)
		k.read(ctx, s, &m)
		if earlier := s.bounds.Load(); earlier == nil || earlier.nanos != newBounds(nil, nil, domain.Limits{}, spendingOf(w)).nanos {
			workspaceBounds(w, s)
		}
		s.release()
	}
	k.subjects.Range(func(id, value any) bool {
		if s := value.(*subject); s.scope == OfWorkspace && budgets[s.id] == nil {
			s.bounds.Store(nil)
		}
		return true
	})
}

// readBudgets returns the workspaces with budgets, by their ids.
func readBudgets(ctx context.Context, store domain.Store) (budgets map[string]*domain.WorkspaceLimits, err error) {
	err = store.View(ctx, func(r domain.Reader) error {
		budgets = make(map[string]*domain.WorkspaceLimits)
		for page := (domain.Page{Limit: domain.MaxPage}); ; page.Offset += page.Limit {
			text, total, err := r.WorkspacePage(page)
			if err != nil {
				return err
			}
			var all []struct {
				ID      string         `json:"id"`
				Budgets domain.Budgets `json:"budgets"`
			}
			if err := json.Unmarshal(text, &all); err != nil {
				return err
			}
			for _, w := range all {
				if len(w.Budgets) > 0 {
					budgets[w.ID] = &domain.WorkspaceLimits{ID: w.ID, Budgets: w.Budgets}
				}
			}
			if page.Offset+page.Limit >= total {
				return nil
			}
		}
	})
	return budgets, err
}

// HasBudgets reports whether a workspace of the store has a budget, as far as the store can be read.
func HasBudgets(ctx context.Context, store domain.Store) bool {
	budgets, _ := readBudgets(ctx, store)
	return len(budgets) > 0
}
