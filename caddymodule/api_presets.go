package caddymodule

import (
	"fmt"
	"net/http"
	"strconv"

	"golang.org/x/sync/semaphore"

	"github.com/caddy-presets/caddy-presets/domain"
)

// changed is the answer that shows what became of an object.
func (c *call) changed(out domain.Outcome, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	c.noteOutcome(out)
	return object(http.StatusOK, out.JSON, domain.Tag(out.JSON)), nil
}

// removed is the answer to the removal of an object.
func (c *call) removed(out domain.Outcome, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	c.noteOutcome(out)
	return deleted(), nil
}

func (c *call) noteOutcome(out domain.Outcome) {
	c.done = []*domain.AuditRecord{out.Record, out.Recreated}
	c.noteFound(domain.Found{WorkspaceID: out.WorkspaceID, Number: out.Number})
	if out.Replayed {
		c.w.Header().Set("Idempotency-Replayed", "true")
	}
}

// found is the answer that shows an object.
func (c *call) found(it domain.Found, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	c.noteFound(it)
	return object(http.StatusOK, it.JSON, it.Tag), nil
}

func (c *call) noteFound(it domain.Found) {
	if it.WorkspaceID != "" {
		c.note("workspace_id", it.WorkspaceID)
	}
	if it.Number != 0 {
		c.note("version", strconv.Itoa(it.Number))
	}
}

// listed is the answer that shows the page of a list that the request asks for.
func (c *call) listed(read func(domain.Page) (domain.Listed, error)) (answer, error) {
	page, err := c.readPage()
	if err != nil {
		return answer{}, err
	}
	l, err := read(page)
	if err != nil {
		return answer{}, err
	}
	return list(l), nil
}

// createPresetFrom returns the operation that makes a preset's version of a
// request in a dialect.
func createPresetFrom(dialect domain.Dialect) func(*call) (answer, error) {
	return func(c *call) (answer, error) {
		switch id, given, err := c.textOf("session_id"); {
		case err != nil:
			return answer{}, err
		case given:
			c.note("session_id", id)
		}
		capture, err := domain.CaptureRequest(dialect, c.object.All())
		if err != nil {
			return answer{}, err
		}
		out, err := c.h.service.CreatePresetVersion(c.r.Context(), c.write(), c.given.workspace, c.params[0], capture)
		if err == nil && out.Record != nil {
			c.h.metrics.versions.Inc()
		}
		return c.changed(out, err)
	}
}

// listPresets lists what is not archived, or what has the status that the query names.
func listPresets(c *call) (answer, error) {
	filter, err := c.readPresetFilter()
	if err != nil {
		return answer{}, err
	}
	return c.listed(func(page domain.Page) (domain.Listed, error) {
		return c.h.service.Presets(c.r.Context(), c.who, c.given.workspace, filter, page)
	})
}

// readPresetFilter reads status, which a list of presets may be asked for.
func (c *call) readPresetFilter() (domain.PresetFilter, error) {
	status, err := c.queried("status")
	if err != nil || status == "" {
		return domain.ListedPresets, err
	}
	for _, filter := range [...]domain.PresetFilter{domain.ActivePresets, domain.DisabledPresets, domain.ArchivedPresets, domain.AllPresets} {
		if status == string(filter) {
			return filter, nil // and not the request's text, which a cache would keep
		}
	}
	return domain.ListedPresets, domain.InvalidAt("status", "must be active, disabled, archived or all")
}

func getPreset(c *call) (answer, error) {
	return c.found(c.h.service.Preset(c.r.Context(), c.who, c.given.workspace, c.params[0]))
}

func updatePreset(c *call) (answer, error) {
	var patch domain.PresetPatch
	if err := c.decode(&patch); err != nil {
		return answer{}, err
	}
	return c.changed(c.h.service.UpdatePreset(c.r.Context(), c.write(), c.given.workspace, c.params[0], patch))
}

func archivePreset(c *call) (answer, error) {
	return c.removed(c.h.service.ArchivePreset(c.r.Context(), c.write(), c.given.workspace, c.params[0]))
}

func restorePreset(c *call) (answer, error) {
	return c.changed(c.h.service.RestorePreset(c.r.Context(), c.write(), c.given.workspace, c.params[0]))
}

func designateVersion(c *call) (answer, error) {
	var to domain.Designation
	if err := c.decode(&to); err != nil {
		return answer{}, err
	}
	return c.changed(c.h.service.DesignateVersion(c.r.Context(), c.write(), c.given.workspace, c.params[0], to))
}

func diffVersions(c *call) (answer, error) {
	from, err := c.queried("from")
	if err != nil {
		return answer{}, err
	}
	to, err := c.queried("to")
	if err != nil {
		return answer{}, err
	}
	return c.found(c.h.service.Diff(c.r.Context(), c.who, c.given.workspace, c.params[0], from, to))
}

// maxVersionPages bounds the pages of versions that are being sent, in bytes, and
// maxReading those that are being read from the store: a page may have 25 MiB, and
// clients that read slowly, or are many at once, would take all memory there is.
const (
	maxVersionPages = 256 << 20
	maxReading      = 8
)

// versionPages and readingPages are what there is for them, in all handlers.
var (
	versionPages = semaphore.NewWeighted(maxVersionPages)
	readingPages = semaphore.NewWeighted(maxReading)
)

// listVersions refuses a page while too many others are being sent.
func listVersions(c *call) (answer, error) {
	return c.listed(func(page domain.Page) (list domain.Listed, err error) {
		if err := readingPages.Acquire(c.r.Context(), 1); err != nil {
			return list, err
		}
		defer readingPages.Release(1)
		list, err = c.h.service.PresetVersions(c.r.Context(), c.who, c.given.workspace, c.params[0], page)
		size := int64(len(list.JSON))
		if err == nil && !versionPages.TryAcquire(size) {
			return domain.Listed{}, fmt.Errorf("%w: too many pages of versions are being sent", domain.ErrUnavailable)
		}
		if err == nil {
			c.sent = func() { versionPages.Release(size) }
		}
		return list, err
	})
}

func getVersion(c *call) (answer, error) {
	n, err := strconv.Atoi(c.params[1])
	if err != nil || n < 1 || strconv.Itoa(n) != c.params[1] {
		return answer{}, &domain.Error{
			Kind: domain.Invalid, Message: "Version must be a positive integer",
			Issues: []domain.Issue{{Path: "version", Message: "must be a positive integer"}},
		}
	}
	return c.found(c.h.service.PresetVersion(c.r.Context(), c.who, c.given.workspace, c.params[0], n))
}

func getLabel(c *call) (answer, error) {
	page, err := c.readPage()
	if err != nil {
		return answer{}, err
	}
	return c.found(c.h.service.Label(c.r.Context(), c.who, c.given.workspace, c.params[0], c.params[1], page))
}

func putLabel(c *call) (answer, error) {
	var to domain.Target
	if err := c.decode(&to); err != nil {
		return answer{}, err
	}
	return c.changed(c.h.service.PutLabel(c.r.Context(), c.write(), c.given.workspace, c.params[0], c.params[1], to))
}

func deleteLabel(c *call) (answer, error) {
	return c.removed(c.h.service.DeleteLabel(c.r.Context(), c.write(), c.given.workspace, c.params[0], c.params[1]))
}
