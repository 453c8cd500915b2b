package caddymodule

import (
	"cmp"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// keyFigures are the members that a key has for everybody who sees it, with their names at
// OpenRouter, and limits. Figures of a caller's own provider key are zero, because the meter
// does not tell them apart.
type keyFigures struct {
	Label              string           `json:"label"`
	Limit              *float64         `json:"limit"`
	LimitRemaining     *float64         `json:"limit_remaining"`
	LimitReset         *domain.Interval `json:"limit_reset"`
	IncludeBYOKInLimit bool             `json:"include_byok_in_limit"`
	Usage              float64          `json:"usage"`
	UsageDaily         float64          `json:"usage_daily"`
	UsageWeekly        float64          `json:"usage_weekly"`
	UsageMonthly       float64          `json:"usage_monthly"`
	BYOKUsage          float64          `json:"byok_usage"`
	BYOKUsageDaily     float64          `json:"byok_usage_daily"`
	BYOKUsageWeekly    float64          `json:"byok_usage_weekly"`
	BYOKUsageMonthly   float64          `json:"byok_usage_monthly"`
	ExpiresAt          *time.Time       `json:"expires_at"`
	CreatorUserID      *string          `json:"creator_user_id"`
	WorkspaceID        string           `json:"workspace_id"`
	Limits             *domain.Limits   `json:"limits"`
}

// shownKey is a key for those who manage it. The members after ExternalUser are ours.
type shownKey struct {
	Hash     domain.KeyHash `json:"hash"`
	Name     string         `json:"name"`
	Disabled bool           `json:"disabled"`
	keyFigures
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt *time.Time `json:"updated_at"`
	// LastUsedAt is to the hour, nil for never.
	LastUsedAt   *time.Time `json:"last_used_at"`
	ExternalUser *string    `json:"external_user"` // nobody has one here
	// ID names the key in usage, histories, events and the log.
	ID             string   `json:"id"`
	Presets        []string `json:"presets"`
	PresetRequired bool     `json:"preset_required"`
	Models         []string `json:"models"`
	// GraceEndsAt is until when the secret before the last rotation works, nil if it does not.
	GraceEndsAt *time.Time `json:"grace_ends_at"`
}

// ownKey is a key for its holder. OpenRouter's clients want all members. RateLimit and
// IsProvisioningKey are deprecated there, and those without a comment mean nothing here.
type ownKey struct {
	keyFigures
	IsManagementKey   bool `json:"is_management_key"`
	IsProvisioningKey bool `json:"is_provisioning_key"`
	// Budgets are those of the workspace, and the limit of the key. EffectiveBudget is the first
	// one that is spent, or else the one with the least left.
	Budgets         []keyBudget  `json:"budgets"`
	EffectiveBudget *keyBudget   `json:"effective_budget"`
	RateLimit       oldRateLimit `json:"rate_limit"`
	IsFreeTier      bool         `json:"is_free_tier"`
	FreeModels      freeModels   `json:"free_model_daily_requests"`
	Regions         []string     `json:"allowed_data_regions"`
	OrganizationID  *string      `json:"organization_id"`
}

// keyBudget is what bounds the spending of a key.
type keyBudget struct {
	Scope         string           `json:"scope"` // workspace or key_limit
	BudgetID      *string          `json:"budget_id"`
	GuardrailID   *string          `json:"guardrail_id"` // there are none
	LimitUSD      float64          `json:"limit_usd"`
	SpendUSD      float64          `json:"spend_usd"`
	RemainingUSD  float64          `json:"remaining_usd"`
	ResetInterval *domain.Interval `json:"reset_interval"`
	ResetsAt      *time.Time       `json:"resets_at"`
	IncludeBYOK   bool             `json:"include_byok"`
}

func newKeyBudget(scope string, limit float64, interval domain.Interval, spent usage.Spending, now time.Time) keyBudget {
	b := keyBudget{Scope: scope, LimitUSD: limit, SpendUSD: spent.In(interval), IncludeBYOK: true}
	b.RemainingUSD = b.LimitUSD - b.SpendUSD
	if _, end := interval.Window(now); !end.IsZero() {
		b.ResetInterval, b.ResetsAt = &interval, &end
	}
	return b
}

// setBudgets sets the budgets of a key in a workspace, in which the keys have spent so much.
func (o *ownKey) setBudgets(k domain.Key, budgets domain.Budgets, spent map[string]usage.Spending, now time.Time) {
	var all usage.Spending
	for _, of := range spent {
		all.Total, all.Daily, all.Weekly, all.Monthly = all.Total+of.Total, all.Daily+of.Daily, all.Weekly+of.Weekly, all.Monthly+of.Monthly
	}
	for _, interval := range domain.Intervals {
		if set, ok := budgets[interval]; ok {
			b := newKeyBudget("workspace", set.LimitUSD, interval, all, now)
			b.BudgetID = &set.ID
			o.Budgets = append(o.Budgets, b)
		}
	}
	if k.Limit != nil {
		o.Budgets = append(o.Budgets, newKeyBudget("key_limit", *k.Limit, k.LimitReset, spent[k.ID], now))
	}
	for i := range o.Budgets {
		b, least := &o.Budgets[i], o.EffectiveBudget
		if least == nil || least.RemainingUSD > 0 && b.RemainingUSD < least.RemainingUSD {
			o.EffectiveBudget = b
		}
	}
}

type freeModels struct {
	Limit     int `json:"limit"`
	Remaining int `json:"remaining"`
	Used      int `json:"used"`
}

type oldRateLimit struct {
	Requests int    `json:"requests"`
	Interval string `json:"interval"`
	Note     string `json:"note"`
}

// figuresOf returns those of a key that has spent so much.
func figuresOf(k domain.Key, spent usage.Spending) keyFigures {
	f := keyFigures{
		Label: cmp.Or(k.Label, k.ID), Limit: k.Limit, IncludeBYOKInLimit: k.IncludeBYOKInLimit,
		Usage: spent.Total, UsageDaily: spent.Daily, UsageWeekly: spent.Weekly, UsageMonthly: spent.Monthly,
		ExpiresAt: k.ExpiresAt, WorkspaceID: k.WorkspaceID, Limits: k.Limits,
	}
	if k.Limit != nil {
		f.LimitRemaining = new(max(0, *k.Limit-spent.In(k.LimitReset)))
	}
	if k.LimitReset != "" {
		f.LimitReset = &k.LimitReset
	}
	if k.UserID != "" {
		f.CreatorUserID = &k.UserID
	}
	return f
}

// showKey returns a key whose WorkspaceID is set.
func showKey(k domain.Key, spent usage.Spending) shownKey {
	scope := domain.ValueOr(k.Scope, domain.Scope{})
	shown := shownKey{
		Hash: k.Hash, Name: k.Name, Disabled: k.Disabled, keyFigures: figuresOf(k, spent),
		CreatedAt: k.CreatedAt, UpdatedAt: k.UpdatedAt,
		ID: k.ID, Presets: scope.Presets, PresetRequired: scope.PresetRequired, Models: scope.Models, LastUsedAt: k.LastUsedAt,
	}
	if k.Previous != nil && time.Now().Before(k.Previous.Until) {
		shown.GraceEndsAt = &k.Previous.Until
	}
	return shown
}

// answerKeys answers with an object or a list, and a new secret if there is one.
func answerKeys(status int, data any, secret string) (response, error) {
	body, err := jsonv2.Marshal(struct {
		Data any    `json:"data"`
		Key  string `json:"key,omitzero"`
	}{data, secret}, jsonv2.FormatNilSliceAsNull(true))
	return response{status: status, body: body}, err
}

// answerKey answers with a key.
func (c *call) answerKey(status int, k domain.Key, spent usage.Spending, secret string) (response, error) {
	c.showFound(k.WorkspaceID, 0)
	return answerKeys(status, showKey(k, spent), secret)
}

// spendingIn returns what the keys of a workspace have spent until now.
func (c *call) spendingIn(workspaceID string) (map[string]usage.Spending, error) {
	return usage.ReadSpending(c.r.Context(), c.h.service, workspaceID, time.Time{}, c.start)
}

// findKey returns the key of the path and what it has spent. Changes read both first, because what
// follows a change must not fail.
func (c *call) findKey() (k domain.Key, spent usage.Spending, err error) {
	if k, err = c.h.service.Key(c.r.Context(), c.who, c.found.Value("hash")); err != nil {
		return k, spent, err
	}
	all, err := c.spendingIn(k.WorkspaceID)
	return k, all[k.ID], err
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
	spent, err := c.spendingIn(home.ID)
	if err != nil {
		return response{}, err
	}
	c.showFound(home.ID, 0)
	isManagement := c.who.Kind == domain.ManagementKey
	own := ownKey{
		keyFigures: figuresOf(k, spent[k.ID]), IsManagementKey: isManagement, IsProvisioningKey: isManagement,
		Budgets: []keyBudget{}, RateLimit: oldRateLimit{-1, "10s", "Deprecated: see limits"}, Regions: []string{},
	}
	if !isManagement {
		own.setBudgets(k, home.Budgets, spent, c.start)
	}
	return answerKeys(http.StatusOK, own, "")
}

// listKeys lists the inference keys of a workspace, the oldest first.
func listKeys(c *call) (response, error) {
	withDisabled, err := c.queriedFlag("include_disabled")
	if err != nil {
		return response{}, err
	}
	page, err := c.readPage(domain.MaxPage) // clients expect as many
	if err != nil {
		return response{}, err
	}
	keys, _, err := c.h.service.WorkspaceKeys(c.r.Context(), c.who, c.given.workspace, domain.ValueOr(withDisabled, false), page)
	if err != nil {
		return response{}, err
	}
	shown := make([]shownKey, len(keys))
	if len(keys) > 0 {
		spent, err := c.spendingIn(keys[0].WorkspaceID)
		if err != nil {
			return response{}, err
		}
		for i, k := range keys {
			shown[i] = showKey(k, spent[k.ID])
		}
	}
	return answerKeys(http.StatusOK, shown, "")
}

func getKey(c *call) (response, error) {
	k, spent, err := c.findKey()
	if err != nil {
		return response{}, err
	}
	return c.answerKey(http.StatusOK, k, spent, "")
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
	if err != nil {
		return response{}, err
	}
	return c.answerKey(http.StatusCreated, k, usage.Spending{}, secret)
}

func updateKey(c *call) (response, error) {
	var patch domain.KeyPatch
	if err := c.decode(&patch); err != nil {
		return response{}, err
	}
	w, err := c.writeKey()
	if err != nil {
		return response{}, err
	}
	k, spent, err := c.findKey()
	if err != nil {
		return response{}, err
	}
	if k, err = c.h.service.UpdateKey(c.r.Context(), w, k.ID, patch); err != nil {
		return response{}, err
	}
	return c.answerKey(http.StatusOK, k, spent, "")
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
	k, spent, err := c.findKey()
	if err != nil {
		return response{}, err
	}
	k, secret, err := c.h.service.RotateKey(c.r.Context(), w, k.ID, grace)
	if err != nil {
		return response{}, err
	}
	return c.answerKey(http.StatusOK, k, spent, secret)
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
