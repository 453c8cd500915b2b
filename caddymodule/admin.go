package caddymodule

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
)

func init() {
	caddy.RegisterModule(new(adminAPI))
}

// liveStores holds a *domain.Service by the name of each store that a running
// configuration uses.
var liveStores = caddy.NewUsagePool()

// adminKeysPath is where keys are issued, listed and revoked.
const adminKeysPath = "/presets/keys"

// maxAdminBody bounds the body of a request to the admin endpoint, in bytes.
const maxAdminBody = 64 << 10

// adminAPI issues, lists and revokes keys through Caddy's admin endpoint:
//
//	POST   /presets/keys       {"kind": "management"|"inference", "user_id", "workspace", "name", "expires_in"}
//	GET    /presets/keys
//	DELETE /presets/keys/{id}
//
// Where several stores are live, ?store= picks one by its name. Only the
// answer to POST holds a secret, once.
type adminAPI struct{}

// CaddyModule returns the Caddy module information.
func (*adminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.presets",
		New: func() caddy.Module { return new(adminAPI) },
	}
}

// Routes returns the routes of the admin endpoint.
func (a *adminAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: adminKeysPath, Handler: caddy.AdminHandlerFunc(a.keys)},
		{Pattern: adminKeysPath + "/", Handler: caddy.AdminHandlerFunc(a.key)},
	}
}

func (a *adminAPI) keys(w http.ResponseWriter, r *http.Request) error {
	service, err := pickStore(r)
	if err != nil {
		return err
	}
	switch r.Method {
	case http.MethodPost:
		return issueKey(w, r, service)
	case http.MethodGet:
		keys, err := service.Keys(r.Context())
		if err != nil {
			return adminError(err)
		}
		list := keyList{Keys: make([]issuedKey, len(keys))}
		for i, k := range keys {
			list.Keys[i] = newIssuedKey(k, time.Now())
		}
		return writeJSON(w, http.StatusOK, list)
	default:
		return methodNotAllowed(w, "GET, POST")
	}
}

func (a *adminAPI) key(w http.ResponseWriter, r *http.Request) error {
	service, err := pickStore(r)
	if err != nil {
		return err
	}
	if r.Method != http.MethodDelete {
		return methodNotAllowed(w, "DELETE")
	}
	k, err := service.RevokeKey(r.Context(), strings.TrimPrefix(r.URL.Path, adminKeysPath+"/"))
	if err != nil {
		return adminError(err)
	}
	return writeJSON(w, http.StatusOK, newIssuedKey(k, time.Now()))
}

// newKeyRequest is the body of a key's creation.
type newKeyRequest struct {
	Kind      domain.KeyKind `json:"kind"`
	UserID    string         `json:"user_id,omitzero"`
	Workspace string         `json:"workspace,omitzero"`
	Name      string         `json:"name,omitzero"`
	// ExpiresIn is a duration such as 720h or 30d, empty for ever.
	ExpiresIn string `json:"expires_in,omitzero"`
}

// issuedKey is a key as the admin endpoint shows it.
type issuedKey struct {
	ID          string         `json:"id"`
	Kind        domain.KeyKind `json:"kind"`
	Name        string         `json:"name"`
	UserID      string         `json:"user_id"`
	WorkspaceID string         `json:"workspace_id"` // empty: the default workspace
	Hint        string         `json:"hint"`
	Live        bool           `json:"live"`
	CreatedAt   time.Time      `json:"created_at"`
	ExpiresAt   *time.Time     `json:"expires_at"`
	RevokedAt   *time.Time     `json:"revoked_at"`
	// Secret is set in the answer to the key's creation and nowhere else.
	Secret string `json:"key,omitzero"`
}

type keyList struct {
	Keys []issuedKey `json:"keys"`
}

func newIssuedKey(k domain.Key, now time.Time) issuedKey {
	return issuedKey{
		ID: k.ID, Kind: k.Kind, Name: k.Name, UserID: k.UserID, WorkspaceID: k.WorkspaceID,
		Hint: k.Hint, Live: k.Live(now), CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt,
	}
}

func issueKey(w http.ResponseWriter, r *http.Request, service *domain.Service) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
	if err != nil {
		return badRequest(fmt.Errorf("reading the body: %w", err))
	}
	var in newKeyRequest
	if err := jsonv2.Unmarshal(body, &in, jsonv2.RejectUnknownMembers(true)); err != nil {
		return badRequest(fmt.Errorf("reading the body: %w", err))
	}
	var lifetime time.Duration
	if in.ExpiresIn != "" {
		if lifetime, err = caddy.ParseDuration(in.ExpiresIn); err != nil || lifetime <= 0 {
			return badRequest(errors.New("expires_in: must be a positive duration such as 720h or 30d"))
		}
	}
	k, secret, err := service.IssueKey(r.Context(), domain.NewKey{
		Kind: in.Kind, UserID: in.UserID, Name: in.Name, Workspace: in.Workspace, Lifetime: lifetime,
	})
	if err != nil {
		return adminError(err)
	}
	issued := newIssuedKey(k, time.Now())
	issued.Secret = secret
	return writeJSON(w, http.StatusCreated, issued)
}

// pickStore returns the store that the request names, or the only one.
func pickStore(r *http.Request) (*domain.Service, error) {
	want := r.URL.Query().Get("store")
	var names []string
	found := make(map[string]*domain.Service)
	liveStores.Range(func(key, value any) bool {
		name := key.(string)
		names = append(names, name)
		found[name] = value.(*domain.Service)
		return true
	})
	slices.Sort(names)
	list := strings.Join(names, ", ")
	switch {
	case len(names) == 0:
		return nil, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("no store is live: the running configuration has no presets directive")}
	case want != "" && found[want] == nil:
		return nil, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("no live store is named %q; there is: %s", want, list)}
	case want == "" && len(names) > 1:
		return nil, badRequest(fmt.Errorf("several stores are live; pick one with store: %s", list))
	case want == "":
		want = names[0]
	}
	return found[want], nil
}

func writeJSON(w http.ResponseWriter, status int, value any) error {
	body, err := jsonv2.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(append(body, '\n'))
	return err
}

func badRequest(err error) error {
	return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
}

func methodNotAllowed(w http.ResponseWriter, allow string) error {
	w.Header().Set("Allow", allow)
	return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: errors.New("method not allowed")}
}

// adminError is err with its HTTP status. The operator sees the cause.
func adminError(err error) error {
	return caddy.APIError{HTTPStatus: statusOf[domain.KindOf(err)], Err: err}
}

// Interface guard
var _ caddy.AdminRouter = (*adminAPI)(nil)
