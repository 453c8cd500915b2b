package caddymodule

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/envelope"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/quota"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	gatewayanswer "github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// startLimits begins to store what requests use of the limits of their keys, workspaces and presets.
func (h *Handler) startLimits(store domain.Store, operators *domain.Service) {
	if h.Inference == nil {
		return
	}
	h.limits = &quota.Use{Store: store, Logger: h.logger, Reached: func(ctx context.Context, keyID string, once func(domain.Tx) (bool, error)) error {
		return operators.TellKeyLimit(ctx, keyID, once)
	}}
	h.shared.quota.Start(h.limits)
}

// moneyNotHeld says why limits in US dollars cannot be held, and is empty if they can. They need a
// gateway that tells costs, or prices.
func (h *Handler) moneyNotHeld() string {
	switch {
	case h.Inference == nil || h.Inference.Usage == nil:
		return "limits in US dollars cannot be held, because usage is not measured: the server's configuration has no usage block"
	case len(h.Inference.Usage.Prices) == 0 && !h.shared.quota.SeenCost():
		return "limits in US dollars cannot be held, because no prices are configured and the gateway has not told a cost"
	}
	return ""
}

// spentNow returns what a key has spent, of which stored is as far as the rows of usage tell. What counts against
// its limits is newer, and lasts as long as the key.
func (h *Handler) spentNow(ctx context.Context, keyID string, stored usage.Spending) usage.Spending {
	if h.limits == nil {
		return stored
	}
	var now quota.Spent
	err := h.limits.Store.View(ctx, func(r domain.Reader) (err error) {
		now, err = h.shared.quota.Spent(r, keyID, time.Now())
		return err
	})
	if err != nil {
		return stored
	}
	stored.Total, stored.Daily = max(stored.Total, now.Of(domain.Lifetime)), max(stored.Daily, now.Of(domain.Daily))
	stored.Weekly, stored.Monthly = max(stored.Weekly, now.Of(domain.Weekly)), max(stored.Monthly, now.Of(domain.Monthly))
	return stored
}

// adviseMoney logs that limits in US dollars exist and may not be held, at a start or reload.
func (h *Handler) adviseMoney(ctx context.Context) {
	why := h.moneyNotHeld()
	if why == "" || h.limits == nil {
		return
	}
	keys, err := h.service.Keys(ctx)
	if err != nil {
		return // the store logs its failures
	}
	if slices.ContainsFunc(keys, func(k domain.Key) bool { return k.Limit != nil }) || quota.HasBudgets(ctx, h.limits.Store) {
		h.logger.Warn(why)
	}
}

// admit decides whether the limits of the caller let a request through, before its body is read.
func (c *inferenceCall) admit() error {
	if c.h.limits == nil || c.dryRun || c.route != nil && c.route.counts {
		return nil
	}
	caller := quota.Caller{KeyID: c.who.KeyID, Key: c.who.KeyLimits}
	if w, err := c.h.Inference.resolver.Limits(c.r.Context(), c.who); err == nil { // else resolving it fails, too
		caller.Workspace = w
	}
	if c.who.Scope == nil && caller.KeyID != "" { // of the configuration, whose ids are those of other keys at other sites
		caller.KeyID = ""
		if caller.Workspace != nil && caller.Workspace.Limits != nil {
			caller.KeyID = string(c.who.Hash[:])
		}
	}
	return c.limited(c.h.shared.quota.Admit(c.r.Context(), &c.ticket, caller, c.start))
}

// admitOther decides whether the limits of the caller let a request to another route through. Its use is not
// measured, so the estimate counts. Reads count nowhere.
func (c *inferenceCall) admitOther() error {
	if isRead(c.r) && !c.asksForWebSocket() {
		return nil
	}
	if err := c.admit(); err != nil || !c.ticket.IsLimited(quota.Preset{}) {
		return err
	}
	return c.limited(c.ticket.Reserve(c.r.Context(), quota.Preset{}, max(c.r.ContentLength, 0)/4, 0))
}

// defaultMaxTokens is how many output tokens are estimated of a request that does not bound them.
const defaultMaxTokens = 1024

// reserve counts the estimate of a request that is resolved, unless a limit refuses it.
func (c *inferenceCall) reserve(resolution inference.Resolution) error {
	p := quota.Preset{ID: resolution.PresetID, WorkspaceID: resolution.WorkspaceID, Limits: resolution.PresetLimits}
	if c.h.limits == nil || c.dryRun || c.route.counts || !c.ticket.IsLimited(p) {
		return nil
	}
	tokens := gatewayanswer.Tokens{Input: int64(resolution.Body.Len()) / 4, Output: resolution.MaxTokens}
	if tokens.Output == 0 {
		tokens.Output = defaultMaxTokens
	}
	var nanos int64
	if u := c.h.Inference.Usage; u != nil && c.ticket.BoundsMoney(p) {
		if cost, ok := u.prices.Estimate(resolution.Model, tokens); ok {
			nanos = nanosOf(cost.InexactFloat64())
		}
	}
	return c.limited(c.ticket.Reserve(c.r.Context(), p, tokens.Input+tokens.Output, nanos))
}

func nanosOf(usd float64) int64 { return int64(math.Ceil(min(max(usd, 0), domain.MaxLimitUSD) * 1e9)) }

// endTicket tells the limits what a request has used.
func (c *inferenceCall) endTicket() {
	used := quota.Used{PresetID: c.named.id, WorkspaceID: c.named.workspace, Unknown: true}
	if u := c.used; u != nil {
		used.WorkspaceID = u.WorkspaceID
		used.Tokens = max(u.Tokens.Input, 0) + max(u.Tokens.Output, 0)
		used.Unknown = u.Unknown != "" && !u.IsError()
		used.NoCost = u.LacksCost()
		if u.HasCost {
			used.Nanos = nanosOf(u.Cost.InexactFloat64())
			if !u.Estimated {
				c.h.shared.quota.SeeCost()
			}
		}
		if used.Unknown && u.HasCost { // the gateway told the cost alone
			used.Unknown, used.Tokens = false, c.ticket.EstimatedTokens()
		}
	}
	if used.NoCost && c.ticket.LacksCost() {
		c.h.shared.uncosted.Do(func() {
			c.h.logger.Warn("a request has no known cost, and counts as free against limits in US dollars: the gateway told none, and no price is for its model")
		})
	}
	c.ticket.End(used, time.Now())
}

// limitHeaders returns what sets the headers of limits, nil if there are none.
func (c *inferenceCall) limitHeaders() func(http.Header) {
	if !c.ticket.HasHeaders() {
		return nil
	}
	return c.showLimits
}

func (c *inferenceCall) showLimits(header http.Header) {
	dialect := domain.Chat
	if c.route != nil {
		dialect = c.route.dialect
	}
	c.ticket.SetHeaders(header, dialect, time.Now())
}

// limitSources name what a limit of costs is of.
var limitSources = map[quota.Scope]string{
	quota.OfKey: "openrouter_key_limit", quota.OfWorkspace: "openrouter_workspace_budget", quota.OfPreset: "preset_limit",
}

// recordRefusal counts a refused request in the reports of usage.
func (c *inferenceCall) recordRefusal() {
	if c.h.Inference.Usage == nil {
		return
	}
	used := &usage.Request{Refused: true, Status: http.StatusTooManyRequests, Asked: c.asked, Start: c.start, FirstContent: -1}
	c.attribute(used)
	if used.WorkspaceID == "" {
		used.WorkspaceID = c.home()
	}
	if used.WorkspaceID != "" {
		c.h.shared.usage.Ledger.Add(used)
	}
}

// limited returns the answer for a refusal of the limits, and counts it.
func (c *inferenceCall) limited(err error) error {
	refused, ok := errors.AsType[*quota.Error](err)
	if !ok {
		return err
	}
	c.h.metrics.LimitRefusals.WithLabelValues(string(refused.Scope), string(refused.Kind)).Inc()
	c.recordRefusal()
	if refused.Kind == quota.Cost {
		about := &envelope.Spending{
			LimitSource: limitSources[refused.Scope], Scope: string(refused.Scope), Interval: refused.Interval,
			LimitUSD: refused.LimitUSD, SpendUSD: refused.SpendUSD,
		}
		if !refused.ResetsAt.IsZero() {
			about.ResetsAt = &refused.ResetsAt
		}
		return &status.Error{Status: http.StatusForbidden, Message: refused.Error(), Spending: about, Cause: refused}
	}
	c.showLimits(c.header)
	seconds := max(1, int64((refused.RetryAfter+time.Second-1)/time.Second))
	return &status.Error{
		Status: http.StatusTooManyRequests, Message: refused.Error(), Cause: refused,
		Header: "Retry-After", Value: strconv.FormatInt(seconds, 10),
	}
}
