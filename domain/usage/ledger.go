package usage

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// MaxSeries is how many series a Ledger sums between two Takes.
const MaxSeries = 10_000

// maxOthers is how many series of other models a Ledger has beside MaxSeries.
const maxOthers = MaxSeries / 10

// The bounds of the rows in a Ledger, in bytes.
const (
	// maxUnstored is of rows that are not stored yet. Beyond it, requests wait in their
	// series, whose number is bounded.
	maxUnstored = 64 << 20
	// maxStored is of rows that are stored. Others are read again.
	maxStored = 16 << 20
)

// Ledger sums the requests of one process until they are stored. Its zero value is ready.
// It is safe for concurrent use.
//
// Between two Takes it has at most MaxSeries series. The requests of further ones are summed without
// their models, in at most 1,000 series beside. Requests beyond those are lost. Overflowed and Lost
// count them.
type Ledger struct {
	mu     sync.Mutex
	live   map[liveKey]*Totals
	others int

	taking sync.Mutex // held before mu
	rows   map[domain.UsageID]*ledgerRow
	takes  int64

	scores recent[scoreKey, score]

	overflowed, lost atomic.Int64
}

// liveKey names a series of one hour.
type liveKey struct {
	workspaceID string
	hour        int64
	key         Key
}

// ledgerRow is a row as this process last wrote it.
type ledgerRow struct {
	content []byte
	stored  bool
	taken   int64 // the last Take that changed it
}

// Add sums a request.
func (l *Ledger) Add(r *Request) {
	l.sum(r.WorkspaceID, hourOf(r.Start), r.Key(), 1, func(t *Totals) { t.Add(r) })
}

// Overflowed returns how many requests were summed without their model or under other.
// There was no room for their series.
func (l *Ledger) Overflowed() int64 { return l.overflowed.Load() }

// Lost returns how many requests were not summed at all.
func (l *Ledger) Lost() int64 { return l.lost.Load() }

// sum adds to a series of the hour. The addition stands for so many requests.
func (l *Ledger) sum(workspaceID string, hour int64, key Key, number int64, add func(*Totals)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := liveKey{workspaceID, hour, key}
	t := l.live[at]
	if t == nil {
		if l.live == nil {
			l.live = make(map[liveKey]*Totals)
		}
		if t = l.room(at, number); t == nil {
			return
		}
	}
	add(t)
}

// room returns the totals for a new series: its own, those of other models, or nil.
func (l *Ledger) room(at liveKey, number int64) *Totals {
	if len(l.live)-l.others >= MaxSeries {
		l.overflowed.Add(number)
		at.key.Model = otherModel // clients name as many as they like
		if t := l.live[at]; t != nil {
			return t
		}
		if l.others == maxOthers {
			l.lost.Add(number)
			return nil
		}
		l.others++
	}
	at.key.Label, at.key.Model = strings.Clone(at.key.Label), strings.Clone(at.key.Model) // they may be parts of large texts
	t := new(Totals)
	l.live[at] = t
	return t
}

// Pending reports whether something is not stored yet.
func (l *Ledger) Pending() bool {
	l.taking.Lock()
	defer l.taking.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.live) > 0 || l.unstored() > 0
}

// Take returns the rows that changed since they were last given to Stored. Their order is
// by workspace, preset, hours before days, and time. Each has the whole sum of this
// process, and replaces the stored one.
//
// read returns the stored content of a row, nil for none. The row is of this process, or of
// an earlier one whose rows it goes on with. Take asks for rows that it does not remember.
// If read fails, the requests of the row stay for the next Take. Take's error has the first
// such error. It also has that of a row that is damaged, which begins anew. Take returns
// rows beside an error.
func (l *Ledger) Take(read func(domain.UsageID) ([]byte, error)) ([]domain.UsageRow, error) {
	l.taking.Lock()
	defer l.taking.Unlock()
	l.takes++
	var errs []error
	if l.unstored() < maxUnstored {
		errs = l.settle(read)
	}
	var rows []domain.UsageRow
	for id, row := range l.rows {
		if !row.stored {
			rows = append(rows, domain.UsageRow{UsageID: id, Content: row.content})
		}
	}
	slices.SortFunc(rows, func(a, b domain.UsageRow) int { return compareRows(a.UsageID, b.UsageID) })
	return rows, errors.Join(errs...)
}

// Stored tells the ledger that rows of Take are stored. Those that are not come again from
// the next Take, with what was summed since.
func (l *Ledger) Stored(rows []domain.UsageRow) {
	l.taking.Lock()
	defer l.taking.Unlock()
	for _, r := range rows {
		if row := l.rows[r.UsageID]; row != nil && len(r.Content) > 0 && &r.Content[0] == &row.content[0] {
			row.stored = true
		}
	}
	l.forget()
}

// Forget drops the rows that are stored, which others may change from now on.
func (l *Ledger) Forget() {
	l.taking.Lock()
	defer l.taking.Unlock()
	maps.DeleteFunc(l.rows, func(_ domain.UsageID, row *ledgerRow) bool { return row.stored })
}

// settle moves the live series into their rows.
func (l *Ledger) settle(read func(domain.UsageID) ([]byte, error)) (errs []error) {
	l.mu.Lock()
	live := l.live
	l.live, l.others = nil, 0
	l.mu.Unlock()

	byHour := make(map[domain.UsageID]map[liveKey]*Totals)
	for at, t := range live {
		id := at.row()
		if byHour[id] == nil {
			byHour[id] = make(map[liveKey]*Totals)
		}
		byHour[id][at] = t
	}
	for hour, series := range byHour {
		day := hour
		day.Day, day.Start = true, hour.Start.Truncate(24*time.Hour)
		if err := cmp.Or(l.remember(hour, read), l.remember(day, read)); err != nil {
			if errs == nil { // most likely the others have the same cause
				errs = append(errs, err)
			}
			l.giveBack(series)
			continue
		}
		slug, changes := "", make(map[string]*Totals, len(series))
		for at, t := range series {
			slug = at.key.Preset
			changes[string(appendKey(nil, &at.key))] = t
		}
		for _, id := range [...]domain.UsageID{hour, day} {
			if err := l.change(id, slug, changes); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// remember makes sure that the ledger has a row, which may be a new one.
func (l *Ledger) remember(id domain.UsageID, read func(domain.UsageID) ([]byte, error)) error {
	if l.rows[id] != nil {
		return nil
	}
	content, err := read(id)
	if err != nil {
		return err
	}
	if l.rows == nil {
		l.rows = make(map[domain.UsageID]*ledgerRow)
	}
	l.rows[id] = &ledgerRow{content: content, stored: true}
	return nil
}

// change adds changes to a row that the ledger has.
func (l *Ledger) change(id domain.UsageID, slug string, changes map[string]*Totals) error {
	row := l.rows[id]
	content, folded, err := mergeRow(row.content, slug, changes)
	if err != nil {
		err = fmt.Errorf("usage of preset %q from %s begins anew: %w", slug, id.Start.Format(time.RFC3339), err)
		var broken error
		if content, folded, broken = mergeRow(nil, slug, changes); broken != nil {
			return broken
		}
	}
	if !id.Day { // the day's row has the same requests
		l.overflowed.Add(folded)
	}
	*row = ledgerRow{content: content, taken: l.takes}
	return err
}

// giveBack makes series live again.
func (l *Ledger) giveBack(series map[liveKey]*Totals) {
	for at, t := range series {
		l.sum(at.workspaceID, at.hour, at.key, t.counts[requests], func(sum *Totals) { sum.merge(t, maxOutcomes) })
	}
}

// unstored returns the size of the rows that are not stored.
func (l *Ledger) unstored() (size int) {
	for _, row := range l.rows {
		if !row.stored {
			size += len(row.content)
		}
	}
	return size
}

// forget keeps maxStored. It drops the rows first that changed last the longest ago.
func (l *Ledger) forget() {
	size := 0
	var stored []domain.UsageID
	for id, row := range l.rows {
		if row.stored {
			size += len(row.content)
			stored = append(stored, id)
		}
	}
	if size <= maxStored {
		return
	}
	slices.SortFunc(stored, func(a, b domain.UsageID) int { return int(l.rows[a].taken - l.rows[b].taken) })
	for _, id := range stored {
		if size <= maxStored/2 {
			return
		}
		size -= len(l.rows[id].content)
		delete(l.rows, id)
	}
}

// row returns the row of the series and its hour.
func (at liveKey) row() domain.UsageID {
	return domain.UsageID{WorkspaceID: at.workspaceID, PresetID: at.key.PresetID, Start: time.Unix(at.hour*3600, 0).UTC()}
}

// compareRows orders rows as Take does.
func compareRows(a, b domain.UsageID) int {
	return cmp.Or(strings.Compare(a.WorkspaceID, b.WorkspaceID), strings.Compare(a.PresetID, b.PresetID), compareBool(a.Day, b.Day), a.Start.Compare(b.Start))
}
