// Package keyview shows keys as the API of keys does, in the shapes of OpenRouter.
package keyview

import (
	"cmp"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/quota"
	"github.com/caddy-presets/caddy-presets/domain"
)

// Figures are the members that a key has for everybody who sees it, with their names at
// OpenRouter, and limits. Figures of a caller's own provider key are zero, because the meter
// does not tell them apart.
type Figures struct {
	Label string   `json:"label"`
	Limit *float64 `json:"limit"`
	// LimitRemaining is nil if what was spent is not known, too. The usage is zero then.
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

// Spent is what keys and workspaces have spent by their ids. One that is missing is not known.
type Spent map[string]quota.Spent

func figuresOf(k domain.Key, spent Spent) Figures {
	of, isKnown := spent[k.ID]
	f := Figures{
		Label: cmp.Or(k.Label, k.ID), Limit: k.Limit, IncludeBYOKInLimit: k.IncludeBYOKInLimit,
		Usage: of.Of(domain.Lifetime), UsageDaily: of.Of(domain.Daily), UsageWeekly: of.Of(domain.Weekly), UsageMonthly: of.Of(domain.Monthly),
		ExpiresAt: k.ExpiresAt, WorkspaceID: k.WorkspaceID, Limits: k.Limits,
	}
	if k.Limit != nil && isKnown {
		f.LimitRemaining = new(max(0, *k.Limit-of.Of(k.LimitReset)))
	}
	if k.LimitReset != "" {
		f.LimitReset = &k.LimitReset
	}
	if k.UserID != "" {
		f.CreatorUserID = &k.UserID
	}
	return f
}

// Key is a key for those who manage it. The members after ExternalUser are ours.
type Key struct {
	Hash     domain.KeyHash `json:"hash"`
	Name     string         `json:"name"`
	Disabled bool           `json:"disabled"`
	Figures
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

// Of returns a key whose WorkspaceID is set.
func Of(k domain.Key, spent Spent, now time.Time) Key {
	scope := domain.ValueOr(k.Scope, domain.Scope{})
	shown := Key{
		Hash: k.Hash, Name: k.Name, Disabled: k.Disabled, Figures: figuresOf(k, spent),
		CreatedAt: k.CreatedAt, UpdatedAt: k.UpdatedAt,
		ID: k.ID, Presets: scope.Presets, PresetRequired: scope.PresetRequired, Models: scope.Models, LastUsedAt: k.LastUsedAt,
	}
	if k.Previous != nil && now.Before(k.Previous.Until) {
		shown.GraceEndsAt = &k.Previous.Until
	}
	return shown
}

// Own is a key for its holder. OpenRouter's clients want all members. RateLimit and
// IsProvisioningKey are deprecated there, and those without a comment mean nothing here.
type Own struct {
	Figures
	IsManagementKey   bool `json:"is_management_key"`
	IsProvisioningKey bool `json:"is_provisioning_key"`
	// Budgets are those of the workspace, and the limit of the key. EffectiveBudget is the first
	// one that is spent, or else the one with the least left.
	Budgets         []Budget `json:"budgets"`
	EffectiveBudget *Budget  `json:"effective_budget"`
	// LimitNotice says why these cannot be held, nil if they can. It is ours.
	LimitNotice    *string      `json:"limit_notice"`
	RateLimit      oldRateLimit `json:"rate_limit"`
	IsFreeTier     bool         `json:"is_free_tier"`
	FreeModels     freeModels   `json:"free_model_daily_requests"`
	Regions        []string     `json:"allowed_data_regions"`
	OrganizationID *string      `json:"organization_id"`
}

// Budget is what bounds the spending of a key.
type Budget struct {
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

// OwnOf returns the key of a request's sender, which acts in a workspace. An inference key has the limits of the
// workspace where it lacks one. notice says why limits in US dollars cannot be held, and is empty if they can.
func OwnOf(k domain.Key, home domain.Workspace, spent Spent, notice string, now time.Time) Own {
	isManagement := k.Kind == domain.ManagementKey
	if !isManagement {
		k.Limits = k.Limits.Or(home.Limits)
	}
	own := Own{
		Figures: figuresOf(k, spent), IsManagementKey: isManagement, IsProvisioningKey: isManagement,
		Budgets: []Budget{}, RateLimit: oldRateLimit{-1, "10s", "Deprecated: see limits"}, Regions: []string{},
	}
	if isManagement {
		return own
	}
	own.setBudgets(k, home, spent, now)
	if notice != "" && len(own.Budgets) > 0 {
		own.LimitNotice = &notice
	}
	return own
}

func (o *Own) setBudgets(k domain.Key, home domain.Workspace, spent Spent, now time.Time) {
	add := func(scope string, id *string, limit float64, interval domain.Interval, spent quota.Spent) {
		b := Budget{Scope: scope, BudgetID: id, LimitUSD: limit, SpendUSD: spent.Of(interval), IncludeBYOK: true}
		b.RemainingUSD = b.LimitUSD - b.SpendUSD
		if _, end := interval.Window(now); !end.IsZero() {
			b.ResetInterval, b.ResetsAt = &interval, &end
		}
		o.Budgets = append(o.Budgets, b)
	}
	for _, interval := range domain.Intervals {
		if set, ok := home.Budgets[interval]; ok {
			add("workspace", &set.ID, set.LimitUSD, interval, spent[home.ID])
		}
	}
	if k.Limit != nil {
		add("key_limit", nil, *k.Limit, k.LimitReset, spent[k.ID])
	}
	for i := range o.Budgets {
		b, least := &o.Budgets[i], o.EffectiveBudget
		if least == nil || least.RemainingUSD > 0 && b.RemainingUSD < least.RemainingUSD {
			o.EffectiveBudget = b
		}
	}
}
