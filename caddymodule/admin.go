package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
)

func init() {
	caddy.RegisterModule(new(adminAPI))
}

// liveStores holds a *liveStore by the name of each store that a running
// configuration uses.
var liveStores = caddy.NewUsagePool()

// liveStore is a store that handlers use, one or several of one configuration or,
// during a reload, of two. Each brings its own handle on the store: that of the handler
// that came last serves the admin endpoint, since only it is sure to have the settings
// that are valid now, such as a password.
type liveStore struct {
	limiter *authLimiter
	gone    context.Context // ends when no configuration uses the store any more
	end     context.CancelFunc
	advised sync.Once // of how to make the first key

	mu   sync.Mutex
	uses []*storeUse // the newest last

	configuredKeys // a snapshot of the keys in uses
}

// storeUse is how one handler uses a store.
type storeUse struct {
	handler *Handler
	store   domain.Store
	service *domain.Service
	keys    []domain.Principal // from the configuration
}

// goLive makes the store of h one that is live, until withdrawn.
func (h *Handler) goLive(name string, store domain.Store) {
	value, _, _ := liveStores.LoadOrNew(name, func() (caddy.Destructor, error) { // which does not fail
		gone, end := context.WithCancel(context.Background())
		return &liveStore{gone: gone, end: end, limiter: newAuthLimiter()}, nil
	})
	h.storeName, h.live = name, value.(*liveStore)
	h.limiter = h.live.limiter
	h.live.mu.Lock()
	defer h.live.mu.Unlock()
	h.live.uses = append(h.live.uses, &storeUse{h, store, domain.NewService(store), slices.Collect(maps.Values(h.keys))})
	h.live.publish(h.live.uses)
	h.finder = keyFinder{h.keys, []*liveStore{h.live}}
}

// Destruct ends what would keep the store open though no configuration uses it.
func (l *liveStore) Destruct() error {
	l.end()
	return nil
}

func (h *Handler) withdraw() error {
	if h.live == nil {
		return nil // Provision never got that far
	}
	h.live.mu.Lock()
	h.live.uses = slices.DeleteFunc(h.live.uses, func(u *storeUse) bool { return u.handler == h })
	h.live.publish(h.live.uses)
	h.live.mu.Unlock()
	_, err := liveStores.Delete(h.storeName)
	return err
}

// newest returns the use of the handler that came last, nil if all are withdrawn.
func (l *liveStore) newest() *storeUse {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.uses) == 0 {
		return nil
	}
	return l.uses[len(l.uses)-1]
}

// keepVersions returns what the configuration says of how many versions of a preset
// to keep, 0 for all. It is an error if its sites do not agree.
func (l *liveStore) keepVersions() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []int
	for _, u := range l.uses {
		all = append(all, u.handler.KeepVersions)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 1 {
		return 0, fmt.Errorf("keep: must be given, since the sites of this store do not have the same keep_versions: %v, where 0 stands for all", all)
	}
	return all[0], nil
}

// configured returns the keys that the configuration has for the store, in
// whichever site.
func (l *liveStore) configured() (keys []domain.Principal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.uses {
		keys = append(keys, u.keys...)
	}
	return keys
}

// adminPath begins the paths of the admin endpoint that are ours.
const adminPath = "/presets/"

// maxAdminBody bounds the body of a request to the admin endpoint, in bytes.
const maxAdminBody = 64 << 10

// adminAPI is what operators ask of us through Caddy's admin endpoint. Where
// several stores are live, ?store= picks one by its name.
type adminAPI struct{}

// adminOperation is one row of the admin endpoint's route table.
type adminOperation struct {
	name   string // in the OpenAPI document
	method string
	path   string // below adminPath; {} stands for any one segment that is not empty
	body   string // its schema in that document, or linesBody; empty for none
	run    func(w http.ResponseWriter, r *http.Request, params []string) error
}

// linesBody stands for a body that is an export.
const linesBody = "export"

// adminRoutes is what the admin endpoint offers. Only the answer to the creation
// of a key holds a secret, once.
func adminRoutes() []adminOperation {
	return []adminOperation{
		{"key_create", http.MethodPost, "keys", "NewKey", withStore(issueKey)},
		{"key_list", http.MethodGet, "keys", "", withStore(listKeys)},
		{"key_revoke", http.MethodDelete, "keys/{}", "", withStore(revokeKey)},
		{"audit_list", http.MethodGet, "audit", "", withStore(listAudit)},
		{"version_prune", http.MethodPost, "prune", "Pruning", withStore(pruneVersions)},
		{"backup_get", http.MethodGet, "backup", "", withStore(getBackup)},
		{"store_export", http.MethodGet, "export", "", withStore(exportStore)},
		{"store_import", http.MethodPost, "import", linesBody, withStore(importStore)},
		{"store_verify", http.MethodPost, "verify", "", withStore(verifyStore)},
		{"openapi_get", http.MethodGet, "openapi.yaml", "", serveOpenAPI},
	}
}

// operator is who acts through the admin endpoint, in the audit trail. Caddy
// gives requests to that endpoint no id, so their records have none.
var operator = domain.By(domain.Principal{UserID: "admin", Kind: domain.ManagementKey})

// CaddyModule returns the Caddy module information.
func (*adminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.presets",
		New: func() caddy.Module { return new(adminAPI) },
	}
}

// Routes returns the routes of the admin endpoint.
func (*adminAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: adminPath, Handler: caddy.AdminHandlerFunc(serveAdmin)}}
}

func serveAdmin(w http.ResponseWriter, r *http.Request) error {
	segments := pathSegments(strings.TrimPrefix(r.URL.EscapedPath(), adminPath), nil)
	var allow []string
	for _, op := range adminRoutes() {
		params, ok := matchPath(op.path, segments, nil)
		switch {
		case !ok:
		case op.method == r.Method:
			return op.run(w, r, params)
		default:
			allow = append(allow, op.method)
		}
	}
	if allow == nil {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("resource not found")}
	}
	slices.Sort(allow)
	w.Header().Set("Allow", strings.Join(allow, ", "))
	return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: errors.New("method not allowed")}
}

// adminRequest is a request to the admin endpoint that concerns a store.
type adminRequest struct {
	*http.Request
	*liveStore
	*storeUse
	w      http.ResponseWriter
	params []string // the path's variable segments, decoded
}

// withStore lets run answer about the store that the request picks.
func withStore(run func(adminRequest) error) func(http.ResponseWriter, *http.Request, []string) error {
	return func(w http.ResponseWriter, r *http.Request, params []string) error {
		live, use, err := pickStore(r)
		if err != nil {
			return err
		}
		return run(adminRequest{r, live, use, w, params})
	}
}

// read decodes the body.
func (r adminRequest) read(into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(r.w, r.Body, maxAdminBody))
	if err == nil {
		err = jsonv2.Unmarshal(body, into, jsonv2.RejectUnknownMembers(true))
	}
	if err != nil {
		return badRequest(fmt.Errorf("reading the body: %w", err))
	}
	return nil
}

func listKeys(r adminRequest) error {
	keys, err := r.service.Keys(r.Context())
	if err != nil {
		return adminError(err)
	}
	return writeJSON(r.w, http.StatusOK, keyList{r.show(keys...)})
}

func revokeKey(r adminRequest) error {
	k, err := r.service.RevokeKey(r.Context(), operator, r.params[0])
	if err != nil {
		return adminError(err)
	}
	return writeJSON(r.w, http.StatusOK, r.show(k)[0])
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
	// WorkspaceSlug is empty where the workspace was deleted or cannot be read.
	WorkspaceSlug string     `json:"workspace_slug"`
	Hint          string     `json:"hint"`
	Live          bool       `json:"live"`
	CreatedAt     time.Time  `json:"created_at"`
	ExpiresAt     *time.Time `json:"expires_at"`
	RevokedAt     *time.Time `json:"revoked_at"`
	// LastUsedAt is noted once an hour at most, nil for never.
	LastUsedAt *time.Time `json:"last_used_at"`
	// Secret is set in the answer to the key's creation and nowhere else.
	Secret string `json:"key,omitzero"`
}

type keyList struct {
	Keys []issuedKey `json:"keys"`
}

// show returns keys as the admin endpoint shows them.
func (r adminRequest) show(keys ...domain.Key) []issuedKey {
	slugs := map[string]string{"": domain.DefaultWorkspaceSlug}
	shown := make([]issuedKey, len(keys))
	for i, k := range keys {
		slug, known := slugs[k.WorkspaceID]
		if !known {
			// A key is shown even so: this may be the one chance to see its secret.
			if found, err := r.service.Workspace(r.Context(), operator.Who, k.WorkspaceID); err == nil {
				var w domain.Workspace
				_ = jsonv2.Unmarshal(found.JSON, &w)
				slug = w.Slug
			}
			slugs[k.WorkspaceID] = slug
		}
		shown[i] = issuedKey{
			ID: k.ID, Kind: k.Kind, Name: k.Name, UserID: k.UserID,
			WorkspaceID: k.WorkspaceID, WorkspaceSlug: slug,
			Hint: k.Hint, Live: k.Live(time.Now()),
			CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsedAt: k.LastUsedAt,
		}
	}
	return shown
}

func issueKey(r adminRequest) error {
	var in newKeyRequest
	if err := r.read(&in); err != nil {
		return err
	}
	var lifetime time.Duration
	if in.ExpiresIn != "" {
		var err error
		if lifetime, err = caddy.ParseDuration(in.ExpiresIn); err != nil || lifetime <= 0 {
			return badRequest(errors.New("expires_in: must be a positive duration such as 720h or 30d"))
		}
	}
	k, secret, err := r.service.IssueKey(r.Context(), operator, domain.NewKey{
		Kind: in.Kind, UserID: in.UserID, Name: in.Name, Workspace: in.Workspace, Lifetime: lifetime,
	})
	if err != nil {
		return adminError(err)
	}
	issued := r.show(k)[0]
	issued.Secret = secret
	return writeJSON(r.w, http.StatusCreated, issued)
}

// pickStore returns the store that the request names, or the only one, and how to use
// it.
func pickStore(r *http.Request) (*liveStore, *storeUse, error) {
	want := r.URL.Query().Get("store")
	var names []string
	found, uses := make(map[string]*liveStore), make(map[string]*storeUse)
	liveStores.Range(func(key, value any) bool {
		name, live := key.(string), value.(*liveStore)
		if use := live.newest(); use != nil {
			names = append(names, name)
			found[name], uses[name] = live, use
		}
		return true
	})
	slices.Sort(names)
	list := strings.Join(names, ", ")
	switch {
	case len(names) == 0:
		return nil, nil, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("no store is live: the running configuration has no presets directive")}
	case want != "" && found[want] == nil:
		return nil, nil, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("no live store is named %q; there is: %s", want, list)}
	case want == "" && len(names) > 1:
		return nil, nil, badRequest(fmt.Errorf("several stores are live; pick one with store: %s", list))
	case want == "":
		want = names[0]
	}
	return found[want], uses[want], nil
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

// adminError is err with its HTTP status. The operator sees the cause.
func adminError(err error) error {
	return caddy.APIError{HTTPStatus: statusOf[domain.KindOf(err)], Err: err}
}

// Interface guards
var (
	_ caddy.AdminRouter = (*adminAPI)(nil)
	_ caddy.Destructor  = (*liveStore)(nil)
)
