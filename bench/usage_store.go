package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

const (
	usedPresets = 1000
	usedDays    = 400
	usedHours   = 35 * 24
	// usedRequests is the number of requests of a preset and hour.
	usedRequests = 30
)

// Figures of a store whose presets have been in use for usedDays.
const (
	unusedStart      = "start with 1,000 presets, without usage"
	unusedAgainStart = "start with 1,000 presets, without usage, again"
	usedStart        = "start with 1,000 presets in use for 400 days"
	presetMonth      = "month by day of one of 1,000 presets in use, p50"
	workspaceMonth   = "month by day of 1,000 presets in use, by model, p50"
)

// measureUsedStore starts servers with and without stored usage, and asks for reports.
func (b *bench) measureUsedStore() error {
	unused, err := fill(b.ctx, filepath.Join(b.folder, "store-unused"), 1, usedPresets)
	if err != nil {
		return err
	}
	used, err := fill(b.ctx, filepath.Join(b.folder, "store-used"), 1, usedPresets)
	if err != nil {
		return err
	}
	log.Printf("%s: storing %d days of %d presets", usageGroup, b.usedDays, usedPresets)
	if err := fillUsage(b.ctx, used.folder, b.usedDays); err != nil {
		return err
	}
	for round := range b.rounds {
		log.Printf("%s: store, round %d of %d", usageGroup, round+1, b.rounds)
		for _, of := range []struct {
			store  store
			figure string
		}{{unused, unusedStart}, {used, usedStart}, {unused, unusedAgainStart}} {
			o, err := b.startOurs(of.store)
			if err != nil {
				return err
			}
			b.record(of.figure, "ms", float64(o.took.Microseconds())/1000)
			if of.figure == usedStart {
				err = errors.Join(b.measureMonth(o, presetMonth, "/presets/"+slugOf(usedPresets/2), "version"),
					b.measureMonth(o, workspaceMonth, "/workspaces/default", "model"))
			}
			if o.stop(); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureMonth records how long a report takes.
func (b *bench) measureMonth(o *ours, figure, of, by string) error {
	from := time.Now().AddDate(0, 0, -29).UTC().Format(time.RFC3339)
	request := o.get(of + "/usage?step=day&by=" + by + "&from=" + url.QueryEscape(from))
	var took []float64
	for range 20 {
		begun := time.Now()
		_, body, err := request.ask()
		if err != nil {
			return err
		}
		took = append(took, float64(time.Since(begun).Microseconds())/1000)
		if len(body) < 1000 {
			return fmt.Errorf("the report is %s", body)
		}
	}
	slices.Sort(took)
	b.record(figure, "ms", took[len(took)/2])
	return nil
}

// judgeUsedStore adds the rows of the used store.
func (b *bench) judgeUsedStore(j judge) {
	j.row("start with 1,000 presets in use for 400 days, to that without usage", "×", atMost(1.3), ratio(b.recorded(usedStart), b.recorded(unusedStart)))
	j.noise("… without usage again", "×", ratio(b.recorded(unusedAgainStart), b.recorded(unusedStart)))
	j.row("month by day of one of these presets", "ms", atMost(20), b.recorded(presetMonth))
	j.row("month by day of their workspace, by model", "ms", atMost(20), b.recorded(workspaceMonth))
}

// fillUsage stores usage of all presets of a store, of each hour and each day.
func fillUsage(ctx context.Context, folder string, days int) error {
	db, err := badger.Open(folder, badger.Options{})
	if err != nil {
		return err
	}
	return errors.Join(putUsage(ctx, db, days), db.Close())
}

func putUsage(ctx context.Context, db domain.Store, days int) error {
	var home string
	var presets []domain.Preset
	err := db.View(ctx, func(r domain.Reader) (err error) {
		if home, err = r.WorkspaceID(domain.DefaultWorkspaceSlug); err != nil {
			return err
		}
		for i := range usedPresets {
			p, err := r.Preset(home, slugOf(i))
			if err != nil {
				return err
			}
			presets = append(presets, p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	now, node := time.Now(), uuid.NewString()
	return forEach(len(presets), func(i int) error {
		hour, day, err := usageRows(home, presets[i], now)
		if err != nil {
			return err
		}
		hour.Node, day.Node = node, node
		for _, rows := range []struct {
			row  domain.UsageRow
			n    int
			step time.Duration
		}{{hour, min(usedHours, 24*days), time.Hour}, {day, days, 24 * time.Hour}} {
			err := db.Update(ctx, func(tx domain.Tx) error {
				row := rows.row
				for range rows.n {
					if err := tx.PutUsage(row); err != nil {
						return err
					}
					row.Start = row.Start.Add(-rows.step)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// usageRows returns the rows of an hour and of a day of a preset. It has two versions, of a
// model each.
func usageRows(home string, p domain.Preset, now time.Time) (hour, day domain.UsageRow, err error) {
	var l usage.Ledger
	for i := range usedRequests {
		l.Add(&usage.Request{
			WorkspaceID: home, PresetID: p.ID, Preset: p.Slug, Version: 1 + i%2, Asked: fmt.Sprint("openai/gpt-5-mini-", i%2), KeyID: "bench",
			Status: 200, Start: now, Duration: time.Duration(i+1) * 100 * time.Millisecond, FirstContent: time.Duration(i+1) * 10 * time.Millisecond,
			Tokens: answer.Tokens{Input: 421, Output: 200}, HasCost: true, Cost: decimal.New(int64(i), -6),
		})
	}
	rows, err := l.Take(func(domain.UsageID) ([]byte, error) { return nil, nil })
	if err != nil {
		return hour, day, err
	}
	return rows[0], rows[1], nil
}
