package caddymodule

import (
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/query"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inputs"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

func (c *call) answerChange(out domain.Outcome, err error) (response, error) {
	if err != nil {
		return response{}, err
	}
	c.recordOutcome(out)
	tag := out.Tag
	if tag == "" {
		tag = domain.Tag(out.JSON)
	}
	return object(http.StatusOK, out.JSON, tag), nil
}

func (c *call) answerRemoval(out domain.Outcome, err error) (response, error) {
	if err != nil {
		return response{}, err
	}
	c.recordOutcome(out)
	return deleted(), nil
}

func (c *call) recordOutcome(out domain.Outcome) {
	c.showFound(out.WorkspaceID, out.Number)
	if out.Replayed {
		c.header.Set("Idempotency-Replayed", "true")
	}
}

func (c *call) answerObject(it domain.Found, err error) (response, error) {
	if err != nil {
		return response{}, err
	}
	c.showFound(it.WorkspaceID, it.Number)
	return object(http.StatusOK, it.JSON, it.Tag), nil
}

// showFound shows the workspace and the version of an operation in placeholders.
func (c *call) showFound(workspaceID string, version int) {
	if workspaceID != "" {
		c.setPlaceholder(workspacePlaceholder, workspaceID)
	}
	if version != 0 {
		c.setPlaceholder(versionPlaceholder, strconv.Itoa(version))
	}
}

// createPresetFrom returns the operation that makes a preset's version from a request in a
// dialect.
func createPresetFrom(dialect domain.Dialect) func(*call) (response, error) {
	return func(c *call) (response, error) {
		switch id, given, err := c.textOf("session_id"); {
		case err != nil:
			return response{}, err
		case given:
			c.showSession(id)
		}
		how, err := c.readRelease()
		if err != nil {
			return response{}, err
		}
		captureFrom := inference.Capture
		if c.given.isTemplate {
			captureFrom = inference.CaptureTemplate
		}
		capture, err := captureFrom(dialect, c.members)
		if err != nil {
			return response{}, err
		}
		out, err := c.h.service.ReleasePresetVersion(c.r.Context(), c.write(), c.given.workspace, c.slug(), capture, how)
		if err == nil && len(out.Records) > 0 {
			c.h.metrics.Versions.Inc()
		}
		return c.answerChange(out, err)
	}
}

// readRelease reads how the query wants a new version published.
func (c *call) readRelease() (how domain.Release, err error) {
	designate, err := c.given.query.Flag("designate")
	if err != nil {
		return how, err
	}
	how.Draft = designate != nil && !*designate
	if how.Label, err = c.given.query.Only("label"); err != nil {
		return how, err
	}
	message, err := c.given.query.Only("message")
	if message != "" {
		how.Message = &message
	}
	return how, err
}

// listPresets lists the presets that the query asks for, by default all but archived ones.
func listPresets(c *call) (response, error) {
	list, by, err := c.given.query.Presets()
	if err == nil && by != "" {
		list.Rank, err = c.rank(by == query.ByErrors)
	}
	if err != nil {
		return response{}, err
	}
	return pageOf(c.h.service.Presets(c.r.Context(), c.who, c.given.workspace, list, c.given.page))
}

// rank returns how many requests each preset had in the last day, or how many of them failed.
func (c *call) rank(isOfErrors bool) (rank map[string]int64, err error) {
	if c.h.Inference == nil || c.h.Inference.Usage == nil {
		return nil, domain.InvalidAt("sort", "must be updated, name or slug, because usage is not measured")
	}
	workspace := c.given.workspace
	if workspace == "" {
		if workspace, err = c.h.Inference.resolver.WorkspaceID(c.r.Context(), c.who); err != nil {
			return nil, err
		}
	}
	last := domain.UsageRange{From: c.start.Add(-24 * time.Hour), To: c.start}
	err = c.h.service.WorkspaceUsage(c.r.Context(), c.who, workspace, last, func(rows iter.Seq2[domain.UsageRow, error]) (err error) {
		rank, err = usage.Rank(rows, isOfErrors)
		return err
	})
	return rank, err
}

func getPreset(c *call) (response, error) {
	return c.answerObject(c.h.service.Preset(c.r.Context(), c.who, c.given.workspace, c.slug()))
}

func updatePreset(c *call, patch domain.PresetPatch) (response, error) {
	return c.answerChange(c.h.service.UpdatePreset(c.r.Context(), c.write(), c.given.workspace, c.slug(), patch))
}

func archivePreset(c *call) (response, error) {
	return c.answerRemoval(c.h.service.ArchivePreset(c.r.Context(), c.write(), c.given.workspace, c.slug()))
}

func restorePreset(c *call) (response, error) {
	return c.answerChange(c.h.service.RestorePreset(c.r.Context(), c.write(), c.given.workspace, c.slug()))
}

func designateVersion(c *call, to domain.Designation) (response, error) {
	return c.answerChange(c.h.service.DesignateVersion(c.r.Context(), c.write(), c.given.workspace, c.slug(), to))
}

func diffVersions(c *call) (response, error) {
	from, err := c.given.query.Only("from")
	if err != nil {
		return response{}, err
	}
	to, err := c.given.query.Only("to")
	if err != nil {
		return response{}, err
	}
	return c.answerObject(c.h.service.Diff(c.r.Context(), c.who, c.given.workspace, c.slug(), from, to))
}

// A page of versions and a report may have 25 MiB, and clients may be many or read slowly.
const (
	maxVersionPages = 256 << 20 // bytes of pages and reports that are being sent, at most
	maxReading      = 8         // pages that are being read from the store, at most
)

// versionPages and readingPages are these limits, shared by all handlers.
var (
	versionPages = semaphore.NewWeighted(maxVersionPages)
	readingPages = semaphore.NewWeighted(maxReading)
)

// listVersions refuses a page while too many others are being sent. Pages of summaries are
// small.
func listVersions(c *call) (response, error) {
	switch fields, err := c.given.query.Only("fields"); {
	case err != nil:
		return response{}, err
	case fields == "summary":
		return pageOf(c.h.service.PresetVersionSummaries(c.r.Context(), c.who, c.given.workspace, c.slug(), c.given.page))
	case fields != "":
		return response{}, domain.InvalidAt("fields", "must be summary")
	}
	return c.largePage(func() (domain.Found, error) {
		return c.h.service.PresetVersions(c.r.Context(), c.who, c.given.workspace, c.slug(), c.given.page)
	})
}

// largePage answers with a page that may be large.
func (c *call) largePage(read func() (domain.Found, error)) (response, error) {
	if err := readingPages.Acquire(c.r.Context(), 1); err != nil {
		return response{}, err
	}
	defer readingPages.Release(1)
	list, err := read()
	if err != nil {
		return response{}, err
	}
	if err := c.acquirePage(len(list.JSON)); err != nil {
		return response{}, err
	}
	return pageOf(list, nil)
}

// acquirePage refuses an answer of a size while too many other large ones are being sent.
func (c *call) acquirePage(size int) error {
	if !versionPages.TryAcquire(int64(size)) {
		return fmt.Errorf("%w: too many pages of versions and reports are being sent", domain.ErrUnavailable)
	}
	c.pageSize = int64(size)
	return nil
}

// releasePage gives back what acquirePage took, after the answer was sent.
func (c *call) releasePage() {
	if c.pageSize > 0 {
		versionPages.Release(c.pageSize)
	}
}

func getVersion(c *call) (response, error) {
	n, ok := domain.ParseNumber(c.found.Value("version"))
	if !ok || n < 1 {
		return response{}, &domain.Error{
			Kind: domain.Invalid, Message: "Version must be a positive integer",
			Issues: []domain.Issue{{Path: "version", Message: "must be a positive integer"}},
		}
	}
	return c.answerObject(c.h.service.PresetVersion(c.r.Context(), c.who, c.given.workspace, c.slug(), n))
}

func getLabel(c *call) (response, error) {
	return c.answerObject(c.h.service.Label(c.r.Context(), c.who, c.given.workspace, c.slug(), c.found.Value("label"), c.given.page))
}

func putLabel(c *call) (response, error) {
	var body struct {
		Version   int            `json:"version"`
		Split     []domain.Share `json:"split"`
		Protected *bool          `json:"protected"`
	}
	if err := c.decode(&body); err != nil {
		return response{}, err
	}
	to := domain.Target{Version: body.Version, Split: body.Split}
	return c.answerChange(c.h.service.PutLabel(c.r.Context(), c.write(), c.given.workspace, c.slug(), c.found.Value("label"), to, body.Protected))
}

func deleteLabel(c *call) (response, error) {
	return c.answerRemoval(c.h.service.DeleteLabel(c.r.Context(), c.write(), c.given.workspace, c.slug(), c.found.Value("label")))
}

func listInputs(c *call) (response, error) {
	return c.largePage(func() (domain.Found, error) {
		return inputs.List(c.r.Context(), c.h.service, c.who, c.given.workspace, c.slug(), c.given.page)
	})
}

func getInput(c *call) (response, error) {
	return c.answerObject(inputs.Get(c.r.Context(), c.h.service, c.who, c.given.workspace, c.slug(), c.found.Value("input")))
}

func createInput(c *call, patch inputs.Patch) (response, error) {
	a, err := c.answerChange(inputs.Create(c.r.Context(), c.h.service, c.write(), c.given.workspace, c.slug(), patch))
	a.status = http.StatusCreated
	return a, err
}

func updateInput(c *call, patch inputs.Patch) (response, error) {
	return c.answerChange(inputs.Update(c.r.Context(), c.h.service, c.write(), c.given.workspace, c.slug(), c.found.Value("input"), patch))
}

func deleteInput(c *call) (response, error) {
	return c.answerRemoval(inputs.Delete(c.r.Context(), c.h.service, c.write(), c.given.workspace, c.slug(), c.found.Value("input")))
}
