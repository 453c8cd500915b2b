package caddymodule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/clientip"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/limiter"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/domain"
)

// ConfiguredKey is a key of the configuration, which never holds the secret itself.
type ConfiguredKey struct {
	// Either a placeholder that gives the secret, such as {env.PRESETS_KEY} or
	// {file./run/secrets/key}, or "sha256:" and the secret's SHA-256 in
	// hexadecimal. A secret itself is refused: it would be readable at /config.
	Secret string `json:"secret"`

	// The user that the key stands for, as in created_by. Default: the key's
	// own id, such as config-management-1.
	UserID string `json:"user_id,omitempty"`

	// The slug of the workspace that the key acts in. Default: default
	WorkspaceSlug string `json:"workspace,omitempty"`
}

const hashedPrefix = "sha256:"

var errNoCredentials = &domain.Error{Kind: domain.Unauthenticated, Message: "Missing Authentication header"}

// authenticate sets the principal of the request (specification, "Authentication").
func (c *call) authenticate() error {
	if who, ok := c.r.Context().Value(bundleRequest{}).(domain.Principal); ok {
		c.setPrincipal(who)
		return nil
	}
	given := ownkeys.SentValues(c.r, "Authorization")
	switch len(given) {
	case 0:
		return errNoCredentials
	case 1:
	default:
		return domain.InvalidAt("authorization", "given more than once")
	}
	scheme, secret, _ := strings.Cut(given[0], " ")
	secret = strings.TrimLeft(secret, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		secret = "" // no key has this secret
	}
	who, err := c.identify(secret)
	if err != nil {
		return err
	}
	c.setPrincipal(who)
	return nil
}

// identify returns the principal of the first live key among one or more secrets. It looks
// for keys in memory first, then in the store. If no key is live, each secret counts as a
// failure of the client's address. The error is domain.ErrCredentials then, or a limiter.Refusal
// if the address has failed too often.
//
// Clients without an address, as on a Unix socket, are not limited. They cannot be told
// apart.
func (c *call) identify(secrets ...string) (domain.Principal, error) {
	for _, secret := range secrets {
		if who, ok := c.h.knownPrincipal(domain.HashSecret(secret)); ok {
			return who, nil
		}
	}
	var failures *limiter.Limiter // nil if failures are not limited
	by, from := c.h.failureLimit, originOf(c.r)
	if by != (limiter.Limit{}) && from != (limiter.Origin{}) {
		failures = c.h.shared.limiter
	}
	if failures != nil && failures.IsLimited(from, by) {
		if err := failures.Enter(c.r.Context()); err != nil {
			return domain.Principal{}, err
		}
		defer failures.Leave()
	}
	for _, secret := range secrets {
		who, err := c.h.service.Authenticate(c.r.Context(), domain.HashSecret(secret))
		if !errors.Is(err, domain.ErrCredentials) {
			return who, err
		}
	}
	if failures == nil {
		return domain.Principal{}, domain.ErrCredentials
	}
	var wait time.Duration
	for range secrets {
		wait = max(wait, failures.Fail(from, by, c.h.logger))
	}
	if wait > 0 {
		return domain.Principal{}, limiter.Refusal(wait)
	}
	return domain.Principal{}, domain.ErrCredentials
}

func (c *call) setPrincipal(who domain.Principal) {
	c.who = who
	c.setPlaceholder(keyPlaceholder, who.KeyID)
}

// knownPrincipal returns the principal of a live key in memory, by the hash of its secret.
// Configured keys are always in memory. The time of the look-up reveals nothing about a
// secret, because nobody can choose the hash of a guess.
func (h *Handler) knownPrincipal(key domain.KeyHash) (domain.Principal, bool) {
	if who, ok := h.keys[key]; ok {
		return who, true
	}
	return h.service.AuthenticateKnown(key)
}

// provisionKeys returns the principals of all configured keys by the hash of their secret.
// Its errors name a key by its place, never by its secret.
func provisionKeys(repl *caddy.Replacer, management, inference []ConfiguredKey) (map[domain.KeyHash]domain.Principal, error) {
	keys := make(map[domain.KeyHash]domain.Principal, len(management)+len(inference))
	for _, of := range [...]struct {
		kind domain.KeyKind
		keys []ConfiguredKey
	}{{domain.ManagementKey, management}, {domain.InferenceKey, inference}} {
		for i, k := range of.keys {
			place := fmt.Sprintf("%s_keys[%d]", of.kind, i)
			hash, err := k.hash(repl)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", place, err)
			}
			if earlier, taken := keys[hash]; taken {
				return nil, fmt.Errorf("%s: has the same secret as %s", place, earlier.KeyID)
			}
			id := fmt.Sprintf("config-%s-%d", of.kind, i+1)
			keys[hash] = domain.Principal{KeyID: id, Hash: hash, UserID: cmp.Or(k.UserID, id), Kind: of.kind, WorkspaceSlug: k.WorkspaceSlug}
		}
	}
	return keys, nil
}

func (k ConfiguredKey) hash(repl *caddy.Replacer) (hash domain.KeyHash, err error) {
	if text, ok := strings.CutPrefix(k.Secret, hashedPrefix); ok {
		if err := hash.UnmarshalText([]byte(text)); err != nil {
			return hash, fmt.Errorf("%s must be followed by 64 hexadecimal digits", hashedPrefix)
		}
		return hash, nil
	}
	if !ownkeys.IsPlaceholder(k.Secret) {
		return hash, fmt.Errorf("the secret must be a placeholder, such as {env.PRESETS_KEY}, or %s and 64 hexadecimal digits", hashedPrefix)
	}
	secret, err := ownkeys.ExpandSecret(repl, k.Secret)
	if err != nil {
		return hash, err
	}
	return domain.HashSecret(secret), nil
}

const (
	defaultAuthFailures      = 100
	defaultAuthFailureWindow = time.Minute

	// authFailuresOff is the setting for no limit.
	authFailuresOff = -1
)

func (h *Handler) provisionFailureLimit() error {
	h.AuthFailureLimit = cmp.Or(h.AuthFailureLimit, defaultAuthFailures)
	h.AuthFailureWindow = cmp.Or(h.AuthFailureWindow, caddy.Duration(defaultAuthFailureWindow))
	if err := checkAuthFailureLimit(h.AuthFailureLimit, time.Duration(h.AuthFailureWindow)); err != nil {
		return fmt.Errorf("auth_failure_limit: %w", err)
	}
	if h.AuthFailureLimit != authFailuresOff {
		h.failureLimit = limiter.Limit{Most: h.AuthFailureLimit, Window: time.Duration(h.AuthFailureWindow)}
	}
	return nil
}

func checkAuthFailureLimit(limit int, window time.Duration) error {
	if limit == authFailuresOff {
		limit = defaultAuthFailures // its window is checked as with a limit
	}
	return limiter.Limit{Most: limit, Window: window}.Validate()
}

func originOf(r *http.Request) limiter.Origin {
	address, ok := clientip.Of(r)
	if !ok {
		return limiter.Origin{}
	}
	return limiter.OriginAt(address)
}

// guardServer puts the guard of ownkeys before the server that h is provisioned for. It has
// no effect on HTTP/3, whose server Caddy does not let modules reach.
//
// Caddy makes its http.Server after all modules are provisioned. The first that a
// module can get hold of it is when the first connection comes in. Its ConnContext
// functions then run before any goroutine reads the server's handler.
func (h *Handler) guardServer(ctx caddy.Context) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return
	}
	var once sync.Once
	server.RegisterConnContext(func(ctx context.Context, _ net.Conn) context.Context {
		once.Do(func() {
			if server, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
				ownkeys.Guard(server, h.live)
			}
		})
		return ctx
	})
}
