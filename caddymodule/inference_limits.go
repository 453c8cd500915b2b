package caddymodule

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/envelope"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/quota"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/usage"
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
	if c.h.limits == nil || c.dryRun {
		return nil
	}
	caller := quota.Caller{KeyID: c.who.KeyID, Key: c.who.KeyLimits}
	w, err := c.h.Inference.resolver.Limits(c.r.Context(), c.who)
	id, slug := c.who.WorkspaceRef()
	caller.Workspace = c.h.shared.quota.Remember(id+slug, w, errors.Is(err, domain.ErrUnavailable))
	if c.who.Scope == nil && caller.KeyID != "" { // of the configuration, whose ids are those of other keys at other sites
		caller.KeyID = ""
		if caller.Workspace != nil && caller.Workspace.Limits != nil {
			caller.KeyID = string(c.who.Hash[:]) + caller.Workspace.ID // where another site lets it act, it has other limits
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
	if c.r.ContentLength < 0 {
		c.r.Body = countedBody{c.r.Body, &c.passed}
	}
	return c.limited(c.ticket.Reserve(c.r.Context(), quota.Preset{}, quota.Estimate{Tokens: max(c.r.ContentLength, 0) / quota.BytesOfToken}, time.Now()))
}

// countedBody counts the bytes of a body of unknown length while they pass. It has no other methods than the
// body, by which a transport frames it.
type countedBody struct {
	io.ReadCloser
	passed *atomic.Int64
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.passed.Add(int64(n))
	return n, err
}

// reserve counts the estimate of a request that is resolved, unless a limit refuses it.
func (c *inferenceCall) reserve(resolution inference.Resolution) error {
	p := quota.Preset{ID: resolution.PresetID, WorkspaceID: resolution.WorkspaceID, Limits: resolution.PresetLimits}
	if c.h.limits == nil || c.dryRun || !c.ticket.IsLimited(p) {
		return nil
	}
	var e quota.Estimate
	if !c.route.counts && (c.ticket.BoundsUse() || p.Limits.Measured()) {
		c.measured = &quota.Measured{Asked: resolution.Asked, Input: int64(resolution.Body.Len()) / quota.BytesOfToken}
		e = c.measured.Estimate(c.h.prices(), c.h.shared.quota.LargestAnswer(c.who.KeyID, resolution.Asked.Models, c.start))
	}
	return c.limited(c.ticket.Reserve(c.r.Context(), p, e, time.Now()))
}

// prices are those of the configuration, which may have none.
func (h *Handler) prices() (none usage.Prices) {
	if h.Inference.Usage == nil {
		return none
	}
	return h.Inference.Usage.prices
}

// endTicket tells the limits what a request has used.
func (c *inferenceCall) endTicket() {
	used := quota.Used{PresetID: c.named.id, WorkspaceID: c.named.workspace, Tokens: c.passed.Load() / quota.BytesOfToken, UnknownTokens: true, UnknownCost: true}
	if u := c.used; u != nil {
		var isPriced bool
		used, isPriced = c.measured.Used(c.h.prices(), u)
		if u.HasCost && !u.Estimated {
			c.h.shared.quota.SeeCost()
			if told := u.Cost.InexactFloat64(); told > quota.MaxRequestUSD {
				c.h.logger.Warn("the gateway told a cost of a request that no request has, which counts as less", zap.Float64("told_usd", told), zap.Int("counted_usd", quota.MaxRequestUSD), zap.String("key_id", c.who.KeyID))
			}
		}
		if !isPriced && used.Tokens > 0 && c.ticket.BoundsMoney() {
			c.h.shared.uncosted.Do(func() {
				c.h.logger.Warn("a request has no known cost, and counts as free against limits in US dollars: the gateway told none, and no prices are configured")
			})
		}
		if used.Answer > 0 {
			c.h.shared.quota.SeeAnswer(c.who.KeyID, c.measured.Models, used.Answer, time.Now())
		}
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
func (c *inferenceCall) recordRefusal(status int) {
	if c.h.Inference.Usage == nil {
		return
	}
	used := &usage.Request{Refused: true, Status: status, Asked: c.asked, Start: c.start, FirstContent: -1}
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
	if refused.Kind == quota.Cost && !refused.InFlight {
		c.recordRefusal(http.StatusForbidden)
		about := &envelope.Spending{
			LimitSource: limitSources[refused.Scope], Scope: string(refused.Scope), Interval: refused.Interval,
			LimitUSD: refused.LimitUSD, SpendUSD: refused.SpendUSD,
		}
		if !refused.ResetsAt.IsZero() {
			about.ResetsAt = &refused.ResetsAt
		}
		return &status.Error{Status: http.StatusForbidden, Message: refused.Error(), Spending: about, Cause: refused}
	}
	c.recordRefusal(http.StatusTooManyRequests)
	c.showLimits(c.header)
	seconds := max(1, int64((refused.RetryAfter+time.Second-1)/time.Second))
	return &status.Error{
		Status: http.StatusTooManyRequests, Message: refused.Error(), Cause: refused,
		Header: "Retry-After", Value: strconv.FormatInt(seconds, 10),
	}
}
