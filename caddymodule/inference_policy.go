package caddymodule

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/requestpath"
	"github.com/caddy-presets/caddy-presets/domain"
)

// checkUnresolvedRoute checks a request that is not searched. It is refused if the key or its workspace is
// limited, or what they may use, unless it reads models, or its path is one of limited_paths. With other_routes
// "refuse" it is refused if the caller's workspace has disabled server tools, unless it reads.
func (c *inferenceCall) checkUnresolvedRoute() error {
	if closed := c.closed(); closed != nil && (c.hidesQuery() || !c.readsModels() && !c.isLimitedPath()) {
		return closed
	}
	if isRead(c.r) || c.h.Inference.OtherRoutes != otherRoutesRefuse {
		return nil
	}
	return c.h.Inference.resolver.CheckUnresolvedRoute(c.r.Context(), c.who)
}

// closed returns the error with which a route is closed to the caller unless limited_paths open it, nil if it is not. To read
// something without a key is open. So is all while the store cannot tell what the workspace bounds.
func (c *inferenceCall) closed() error {
	switch {
	case c.who.IsLimited():
		return errLimitedKey
	case c.who.LimitsMeasured():
		return errMeasuredKey
	case c.who.KeyID == "" && isRead(c.r):
		return nil
	}
	if c.isWorkspaceMeasured() {
		return errMeasuredWorkspace
	}
	return nil
}

func (c *inferenceCall) isWorkspaceMeasured() bool {
	w, err := c.h.Inference.resolver.Limits(c.r.Context(), c.who)
	return err == nil && w.Measured()
}

var errLimitedKey = &domain.Error{Kind: domain.Forbidden, Message: "This route cannot be used with a key that is limited to presets or models"}

var errMeasuredKey = &domain.Error{Kind: domain.Forbidden, Message: "This route cannot be used with a key that has a limit of costs or tokens, because they are not measured here"}

var errMeasuredWorkspace = &domain.Error{Kind: domain.Forbidden, Message: "This route cannot be used in a workspace with a budget or a limit of tokens, because they are not measured here"}

// hidesQuery reports whether the path of a request has an encoded ? or #. Its normalized path ends
// there, and a gateway may take what follows as a part of the path.
func (c *inferenceCall) hidesQuery() bool {
	return strings.ContainsAny(requestpath.DecodeFully(c.r.URL.Path), "?#")
}

// readsModels reports whether a request reads the list of models, or one that its key may use.
func (c *inferenceCall) readsModels() bool {
	id, isModel := strings.CutPrefix(c.path, "models/")
	return isRead(c.r) && (c.path == "models" || isModel && c.who.MayUseModel(id))
}

// isLimitedPath reports whether limited_paths opens the path of a request. They open no inference
// route: what a key with limits sends there must be resolved.
func (c *inferenceCall) isLimitedPath() bool {
	return inferenceRouteOf(c.path) == nil && slices.ContainsFunc(c.h.Inference.LimitedPaths, func(open string) bool {
		below, isPrefix := strings.CutSuffix(open, "*")
		return c.normalized == open || isPrefix && strings.HasPrefix(c.normalized, below)
	})
}

// checkLimitedPath checks an element of limited_paths.
func checkLimitedPath(open string) error {
	below, isPrefix := strings.CutSuffix(open, "/*")
	if isPrefix && below == "" {
		return nil
	}
	if normalized, _, err := requestpath.Normalize(below); err != nil || normalized != below || !strings.HasPrefix(below, "/") || strings.ContainsAny(below, "*{}") {
		return fmt.Errorf("must be decoded paths such as /health/liveliness, or /files/* for all below, got %q", open)
	}
	return nil
}

// isRead reports whether a request can only read. It has no body, and opens no tunnel
// through which it could make the gateway run a model.
func isRead(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return r.ContentLength == 0 && len(r.Header.Values("Upgrade")) == 0
	}
	return false
}
