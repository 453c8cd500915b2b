package caddymodule

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/keyview"
	"github.com/caddy-presets/caddy-presets/domain"
)

// answerKeys answers with an object or a list, and a new secret if there is one.
func answerKeys(status int, data any, secret string) (response, error) {
	body, err := jsonv2.Marshal(struct {
		Data any    `json:"data"`
		Key  string `json:"key,omitzero"`
	}{data, secret}, jsonv2.FormatNilSliceAsNull(true))
	return response{status: status, body: body}, err
}

// answerKey answers with a key, or with the error instead of it.
func (c *call) answerKey(status int, k domain.Key, secret string, err error) (response, error) {
	if err != nil {
		return response{}, err
	}
	c.showFound(k.WorkspaceID, 0)
	return answerKeys(status, keyview.Of(k, c.spent(k.ID), c.start), secret)
}

// spent returns what counts against the limits of keys and workspaces, by their ids. A change of a key is shown without
// it if the store fails meanwhile.
func (c *call) spent(ids ...string) keyview.Spent {
	return c.h.shared.quota.SpentBy(c.r.Context(), c.h.use.Store, c.start, ids...)
}

// writeKey returns the terms of a change of keys. A repeated request cannot get the first response,
// because no secret is kept.
func (c *call) writeKey() (domain.Write, error) {
	if c.given.idempotencyKey != "" {
		return domain.Write{}, domain.InvalidAt("idempotency-key", "requests about keys have none, because no secret is kept for a second response")
	}
	return c.write(), nil
}

// getOwnKey shows the caller's own key.
func getOwnKey(c *call) (response, error) {
	k, home, err := c.h.service.OwnKey(c.r.Context(), c.who)
	if err != nil {
		return response{}, err
	}
	c.showFound(home.ID, 0)
	ids := []string{k.ID}
	if len(home.Budgets) > 0 {
		ids = append(ids, home.ID)
	}
	return answerKeys(http.StatusOK, keyview.OwnOf(k, home, c.spent(ids...), c.h.moneyNotHeld(), c.start), "")
}

// listKeys lists the inference keys of a workspace, the oldest first.
func listKeys(c *call) (response, error) {
	withDisabled, err := c.given.query.Flag("include_disabled")
	if err != nil {
		return response{}, err
	}
	page, err := c.given.query.Page(domain.MaxPage) // clients expect as many
	if err != nil {
		return response{}, err
	}
	keys, total, err := c.h.service.WorkspaceKeys(c.r.Context(), c.who, c.given.workspace, domain.ValueOr(withDisabled, false), page)
	if err != nil {
		return response{}, err
	}
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	spent := c.spent(ids...)
	shown := make([]keyview.Key, len(keys))
	for i, k := range keys {
		shown[i] = keyview.Of(k, spent, c.start)
	}
	body, err := jsonv2.Marshal(struct {
		Data  []keyview.Key `json:"data"`
		Total int           `json:"total_count"` // is ours, as in other lists
	}{shown, total}, jsonv2.FormatNilSliceAsNull(true))
	return response{status: http.StatusOK, body: body}, err
}

func getKey(c *call) (response, error) {
	k, err := c.h.service.Key(c.r.Context(), c.who, c.found.Value("hash"))
	return c.answerKey(http.StatusOK, k, "", err)
}

// keyBody is the body that creates a key.
type keyBody struct {
	Name           string   `json:"name"`
	WorkspaceID    string   `json:"workspace_id"`
	ExpiresAt      string   `json:"expires_at"`
	CreatorUserID  string   `json:"creator_user_id"`
	Presets        []string `json:"presets"`
	PresetRequired bool     `json:"preset_required"`
	Models         []string `json:"models"`
	domain.KeyLimits
}

func createKey(c *call) (response, error) {
	w, err := c.writeKey()
	if err != nil {
		return response{}, err
	}
	var in keyBody
	if err := c.decode(&in); err != nil {
		return response{}, err
	}
	var expires *time.Time
	if in.ExpiresAt != "" {
		at, err := time.Parse(time.RFC3339, in.ExpiresAt)
		if _, offset := at.Zone(); err != nil || offset != 0 {
			return response{}, domain.InvalidAt("/expires_at", "must be a time in UTC, such as 2027-12-31T23:59:59Z")
		}
		expires = new(at.UTC().Truncate(time.Millisecond))
	}
	k, secret, err := c.h.service.IssueKey(c.r.Context(), w, domain.NewKey{
		Kind: domain.InferenceKey, Name: in.Name, UserID: in.CreatorUserID, Workspace: in.WorkspaceID, ExpiresAt: expires, KeyLimits: in.KeyLimits,
		Scope: domain.Scope{Presets: in.Presets, PresetRequired: in.PresetRequired, Models: in.Models},
	})
	return c.answerKey(http.StatusCreated, k, secret, err)
}

func updateKey(c *call, patch domain.KeyPatch) (response, error) {
	w, err := c.writeKey()
	if err != nil {
		return response{}, err
	}
	k, err := c.h.service.UpdateKey(c.r.Context(), w, c.found.Value("hash"), patch)
	return c.answerKey(http.StatusOK, k, "", err)
}

func rotateKey(c *call) (response, error) {
	var in struct {
		Grace string `json:"grace"`
	}
	if len(c.body) > 0 {
		if err := c.decode(&in); err != nil {
			return response{}, err
		}
	}
	grace, err := readGrace(in.Grace)
	if err != nil {
		return response{}, err
	}
	w, err := c.writeKey()
	if err != nil {
		return response{}, err
	}
	k, secret, err := c.h.service.RotateKey(c.r.Context(), w, c.found.Value("hash"), grace)
	return c.answerKey(http.StatusOK, k, secret, err)
}

// readGrace returns a duration such as 24h, zero for none.
func readGrace(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	grace, err := caddy.ParseDuration(text)
	if err != nil {
		return 0, domain.InvalidAt("/grace", "must be a duration such as 24h or 7d")
	}
	return grace, nil
}

// deleteKey revokes a key. Its record stays until keys are pruned, so that usage and histories
// have its name.
func deleteKey(c *call) (response, error) {
	w, err := c.writeKey()
	if err != nil {
		return response{}, err
	}
	k, err := c.h.live.RevokeKey(c.r.Context(), c.h.service, w, c.found.Value("hash"))
	if err != nil {
		return response{}, err
	}
	c.showFound(k.WorkspaceID, 0)
	return deleted(), nil
}
