package usage

import (
	"cmp"
	"errors"
	"fmt"
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

// maxUnstored bounds the rows that are not stored yet, in bytes. Beyond it, requests wait in their
// series, whose number is bounded.
const maxUnstored = 64 << 20

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

	taking sync.Mutex                // held before mu
	rows   map[domain.UsageID][]byte // those that are not stored yet

	scores recent[scoreKey, score]

	overflowed, lost atomic.Int64
}

// liveKey names a series of one hour.
type liveKey struct {
	workspaceID string
	hour        int64
	key         Key
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
	return len(l.live) > 0 || len(l.rows) > 0
}

// Take returns the rows that changed since they were last given to Stored. Their order is
// by workspace, preset, hours before days, and time. Each has the whole sum of this
// process, and replaces the stored one.
//
// read returns the stored content of a row, nil for none. The row is of this process, or of
// an earlier one whose rows it goes on with. Take asks for rows that wait for no Stored.
// If read fails, the requests of the row stay for the next Take. Take's error has the first
// such error. It also has that of a row that is damaged, which begins anew. Take returns
// rows beside an error.
func (l *Ledger) Take(read func(domain.UsageID) ([]byte, error)) ([]domain.UsageRow, error) {
	l.taking.Lock()
	defer l.taking.Unlock()
	size := 0
	for _, content := range l.rows {
		size += len(content)
	}
	var errs []error
	if size < maxUnstored {
		errs = l.settle(read)
	}
	var rows []domain.UsageRow
	for id, content := range l.rows {
		rows = append(rows, domain.UsageRow{UsageID: id, Content: content})
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
		if content := l.rows[r.UsageID]; len(content) > 0 && len(r.Content) > 0 && &r.Content[0] == &content[0] {
			delete(l.rows, r.UsageID)
		}
	}
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
	unread := 0
	for hour, series := range byHour {
		day := hour
		day.Day, day.Start = true, hour.Start.Truncate(24*time.Hour)
		ofHour, err := l.content(hour, read)
		ofDay, failed := l.content(day, read)
		if err = cmp.Or(err, failed); err != nil {
			if unread++; unread == 1 { // most likely the others have the same cause
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
		errs = append(errs, l.change(hour, ofHour, slug, changes), l.change(day, ofDay, slug, changes))
	}
	if unread > 1 {
		errs = append(errs, fmt.Errorf("usage of %d more hours could not be read", unread-1))
	}
	return errs
}

// content returns the content of a row, which may be a new one.
func (l *Ledger) content(id domain.UsageID, read func(domain.UsageID) ([]byte, error)) ([]byte, error) {
	if content := l.rows[id]; content != nil {
		return content, nil
	}
	return read(id)
}

// change adds changes to the content of a row.
func (l *Ledger) change(id domain.UsageID, before []byte, slug string, changes map[string]*Totals) error {
	content, folded, err := mergeRow(before, slug, changes)
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
	if l.rows == nil {
		l.rows = make(map[domain.UsageID][]byte)
	}
	l.rows[id] = content
	return err
}

// giveBack makes series live again.
func (l *Ledger) giveBack(series map[liveKey]*Totals) {
	for at, t := range series {
		l.sum(at.workspaceID, at.hour, at.key, t.counts[requests], func(sum *Totals) { sum.merge(t, maxOutcomes) })
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
