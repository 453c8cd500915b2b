package transfer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Export writes the content of store, as it is at one moment, to w. Others may write to the
// store meanwhile. Its memory depends on the size of the largest object. It also depends on
// the number of issued keys, because a Reader returns all of them at once. If Export fails,
// w has no last line.
//
// The file leaves out only kept answers that have expired. Export refuses a store whose
// audit trail is broken.
func Export(ctx context.Context, store domain.Store, w io.Writer) (Summary, error) {
	return export(ctx, store, w, time.Now().UTC().Truncate(time.Millisecond))
}

// export is Export at a given time.
func export(ctx context.Context, store domain.Store, w io.Writer, at time.Time) (Summary, error) {
	e := &exporter{ctx: ctx, w: bufio.NewWriterSize(w, 64<<10), sums: newSums()}
	e.summary.CreatedAt = at
	if err := store.View(ctx, e.all); err != nil {
		return Summary{}, fmt.Errorf("exporting: %w", err)
	}
	if err := e.w.Flush(); err != nil {
		return Summary{}, fmt.Errorf("exporting: %w", err)
	}
	e.summary.Digest = e.sums.digest()
	return e.summary, nil
}

type exporter struct {
	domain.Reader
	ctx     context.Context
	w       *bufio.Writer
	sums    sums
	summary Summary
}

func (e *exporter) write(l line) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	raw, err := l.encode()
	switch {
	case err != nil:
		return err
	case len(raw) > maxLine:
		return fmt.Errorf("%w: an object takes a line of %d bytes, more than the %d that can be read again", domain.ErrTooLarge, len(raw), maxLine)
	}
	e.sums.add(l, raw)
	_, err = e.w.Write(raw)
	return err
}

func (e *exporter) all(r domain.Reader) error {
	e.Reader = r
	switch m, err := unfinishedProgress(r); {
	case err != nil:
		return err
	case m != progress{}:
		return ErrUnfinished
	}
	if err := e.write(line{Export: &header{formatName, formatVersion, e.summary.CreatedAt}}); err != nil {
		return err
	}
	for _, part := range []func() error{e.audit, e.workspaces, e.answers, e.keys} {
		if err := part(); err != nil {
			return err
		}
	}
	return e.write(line{End: &trailer{e.summary.Counts, e.sums.sum()}})
}

func (e *exporter) audit() error {
	end, err := e.AuditHead()
	if err != nil {
		return err
	}
	var head domain.AuditHead
	for record, err := range e.AuditTrail(0) {
		if err != nil {
			return err
		}
		if head, err = domain.VerifyAudit(head, []domain.AuditRecord{record}); err != nil {
			return err
		}
		if err := e.write(line{Audit: &record}); err != nil {
			return err
		}
		e.summary.Audit++
	}
	if head != end {
		return errors.New("the audit trail does not end with what the store says")
	}
	return nil
}

// pageSize is the number of listed objects that are read at a time.
const pageSize = domain.MaxPage

func (e *exporter) workspaces() error {
	for page := (domain.Page{Limit: pageSize}); ; page.Offset += page.Limit {
		list, total, err := e.WorkspacePage(page)
		if err != nil {
			return err
		}
		var some []struct {
			ID string `json:"id"`
		}
		if err := jsonv2.Unmarshal(list, &some); err != nil {
			return errors.New("the list of workspaces cannot be read")
		}
		for _, listed := range some {
			w, err := e.Workspace(listed.ID)
			if err != nil {
				return fmt.Errorf("workspace %s, which is listed: %w", listed.ID, err)
			}
			e.summary.Workspaces++
			if err := e.write(line{Workspace: &w}); err != nil {
				return err
			}
			if err := e.presets(w.ID); err != nil {
				return fmt.Errorf("workspace %s: %w", w.ID, err)
			}
			if err := e.usage(w.ID); err != nil {
				return fmt.Errorf("workspace %s, its usage: %w", w.ID, err)
			}
		}
		if page.Offset+page.Limit >= total {
			return nil
		}
	}
}

// presets writes the presets of a workspace in the order in which an import has to put
// them. The preset that was put last is the last.
func (e *exporter) presets(workspaceID string) error {
	stored := 0
	for _, err := range e.Presets(workspaceID) {
		if err := cmp.Or(err, e.ctx.Err()); err != nil {
			return err
		}
		stored++
	}
	_, total, err := e.PresetPage(workspaceID, domain.AllPresets, domain.Page{Limit: 1})
	if err != nil {
		return err
	}
	if total != stored {
		return fmt.Errorf("%d presets are listed, and %d are stored", total, stored)
	}
	for end := total; end > 0; end -= pageSize {
		page := domain.Page{Offset: max(0, end-pageSize), Limit: min(pageSize, end)}
		list, _, err := e.PresetPage(workspaceID, domain.AllPresets, page)
		if err != nil {
			return err
		}
		var some []struct {
			Slug string `json:"slug"`
		}
		if err := jsonv2.Unmarshal(list, &some); err != nil || len(some) != page.Limit {
			return errors.New("the list of presets cannot be read")
		}
		for _, listed := range slices.Backward(some) { // a list has the preset that was put last first
			p, err := e.Preset(workspaceID, listed.Slug)
			if err != nil {
				return fmt.Errorf("a preset that is listed: %w", err)
			}
			if err := e.preset(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *exporter) preset(p domain.Preset) error {
	e.summary.Presets++
	if err := e.write(line{Preset: newPresetLine(p)}); err != nil {
		return err
	}
	for n := range p.State().Versions() {
		v, err := e.PresetVersion(p.State(), n)
		if err != nil {
			return fmt.Errorf("preset %s, version %d: %w", p.ID, n, err)
		}
		e.summary.Versions++
		if err := e.write(line{Version: newVersionLine(v)}); err != nil {
			return err
		}
	}
	for label, err := range e.LabelNames(p) {
		if err != nil {
			return fmt.Errorf("preset %s, its labels: %w", p.ID, err)
		}
		if err := e.label(p, label); err != nil {
			return fmt.Errorf("preset %s, label %q: %w", p.ID, label, err)
		}
	}
	served, err := e.Served(p.WorkspaceID, p.Slug)
	if err != nil || len(served) == 0 {
		return err
	}
	e.summary.Served++
	return e.write(line{Served: &servedLine{p.ID, served}})
}

func (e *exporter) label(p domain.Preset, label string) error {
	changes, err := e.LabelChanges(p, label)
	if err != nil {
		return err
	}
	for n := range changes {
		c, err := e.LabelChange(p, label, n+1)
		if err != nil {
			return err
		}
		e.summary.LabelChanges++
		if err := e.write(line{LabelChange: &labelChangeLine{label, c}}); err != nil {
			return err
		}
	}
	return nil
}

// endOfTime is later than the start of every row.
var endOfTime = time.Unix(1<<40, 0)

func (e *exporter) usage(workspaceID string) error {
	for _, day := range []bool{true, false} {
		for row, err := range e.UsageRows(domain.UsageRange{WorkspaceID: workspaceID, Day: day, To: endOfTime}) {
			if err != nil {
				return err
			}
			e.summary.Usage++
			if err := e.write(line{Usage: newUsageLine(row)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *exporter) answers() error {
	for answer, err := range e.Replays() {
		if err != nil {
			return err
		}
		if answer.ID == progressID || !answer.ExpiresAt.After(e.summary.CreatedAt) {
			continue
		}
		e.summary.Answers++
		if err := e.write(line{Answer: newAnswerLine(answer)}); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) keys() error {
	keys, err := e.Keys()
	if err != nil {
		return err
	}
	for _, k := range keys {
		e.summary.Keys++
		if err := e.write(line{Key: &k}); err != nil {
			return err
		}
	}
	return nil
}
