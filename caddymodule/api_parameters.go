package caddymodule

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/actor"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/etag"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/namelist"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/query"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

// parameters are read from the path, the query and the headers of a request.
type parameters struct {
	query          query.Query
	unknown        []string // the parameters of the query that the operation does not have, sorted
	isTemplate     bool
	workspace      string // to act in, or empty
	page           domain.Page
	condition      domain.Condition
	idempotencyKey string
	owner          string // of presets that the request makes or adopts, or empty
	override       string // the owner of presets that the request changes, or empty
	actor          string // the person behind the key, or empty
}

// sessionHeader names the session of a request (specification,
// "Authentication", item 5).
const sessionHeader = "X-Session-Id"

// showSession sets the placeholder of a session, which access logs may have. A session that
// holds a key of ours is not shown.
func (c *call) showSession(id string) {
	if !secrets.AreIn(id) {
		c.setPlaceholder(sessionPlaceholder, id)
	}
}

func (c *call) readParameters() (err error) {
	id := c.r.Header.Get(sessionHeader) // a body may override it
	if err := reference.CheckSessionID("x-session-id", id); err != nil {
		return err
	}
	if id != "" {
		c.showSession(id)
	}
	if slug := c.slug(); slug != "" {
		if err := domain.CheckPresetSlug(slug); err != nil {
			return err
		}
		c.setPlaceholder(slugPlaceholder, slug)
	}
	if err := c.readQuery(); err != nil {
		return err
	}
	if c.op.is(inWorkspace) {
		if c.given.workspace, err = c.given.query.Only("workspace_id"); err != nil {
			return err
		}
	}
	if c.op.is(paged) {
		if c.given.page, err = c.given.query.Page(domain.DefaultPage); err != nil {
			return err
		}
	}
	if c.given.condition, err = etag.Condition(c.r.Header); err != nil || c.op.method == http.MethodGet {
		return err
	}
	if c.given.idempotencyKey, err = readIdempotencyKey(c.r.Header); err != nil {
		return err
	}
	if c.given.owner, err = readOnce(c.r.Header, "X-Preset-Owner"); err != nil {
		return err
	}
	if c.given.override, err = readOnce(c.r.Header, "X-Preset-Override"); err != nil {
		return err
	}
	c.given.actor, err = actor.Of(c.r, c.h.ActorHeader)
	return err
}

// readQuery reads the query, and refuses unknown parameters of a change.
func (c *call) readQuery() (err error) {
	if c.r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return domain.InvalidAt("query", "malformed")
	}
	c.given.query = query.Query(values)
	known := c.op.parameters()
	for name := range c.given.query {
		if !slices.Contains(known, name) {
			c.given.unknown = append(c.given.unknown, name)
		}
	}
	slices.Sort(c.given.unknown)
	if c.given.unknown != nil && c.op.is(changes) {
		issues := make([]domain.Issue, min(len(c.given.unknown), namelist.Max))
		for i := range issues {
			issues[i] = domain.Issue{Path: namelist.Name(c.given.unknown[i]), Message: "is no parameter of this request"}
		}
		return domain.InvalidIssues(issues...)
	}
	if c.op.body.template != nil {
		isTemplate, err := c.given.query.Flag("template")
		c.given.isTemplate = isTemplate != nil && *isTemplate
		return err
	}
	return nil
}

// slug returns the preset slug of the path, "" if the operation has none.
func (c *call) slug() string { return c.found.Value("slug") }

func readIdempotencyKey(header http.Header) (string, error) {
	key, err := readOnce(header, "Idempotency-Key")
	if err == nil && utf8.RuneCountInString(key) > domain.MaxIdempotencyKey {
		return "", domain.InvalidAt("idempotency-key", "must be at most "+strconv.Itoa(domain.MaxIdempotencyKey)+" characters")
	}
	return key, err
}

// readOnce returns the value of a header, "" if it is absent. It must not be empty or given
// twice.
func readOnce(header http.Header, name string) (string, error) {
	return domain.OnlyValue(name, header.Values(name))
}

// write returns the terms of the change that the request asks for.
func (c *call) write() domain.Write {
	w := domain.Write{
		Who: c.who, RequestID: c.requestID(), Condition: c.given.condition,
		Owner: c.given.owner, Override: c.given.override, Actor: c.given.actor,
	}
	if c.given.idempotencyKey != "" {
		w.Idempotency = domain.Idempotency{Key: c.given.idempotencyKey, Request: c.digest()}
	}
	return w
}

// requestID returns {http.request.uuid}, "" outside of Caddy. Access logs show it as uuid.
func (c *call) requestID() string {
	if c.id == "" && c.repl != nil {
		c.id, _ = c.repl.GetString("http.request.uuid")
	}
	return c.id
}

// digest returns a digest of everything that decides what the request does.
func (c *call) digest() [sha256.Size]byte {
	var text []byte
	add := func(part string) {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	add(c.op.name)
	for _, name := range [...]string{"slug", "version", "label", "workspace"} {
		add(c.found.Value(name))
	}
	for _, name := range [...]string{"input", "interval"} {
		if value := c.found.Value(name); value != "" { // else digests of earlier versions would differ
			add(value)
		}
	}
	add(url.Values(c.given.query).Encode())
	add(c.given.owner)
	add(c.given.override)
	add(string(c.body))
	return sha256.Sum256(text)
}

// listIgnored names the unknown parameters of the query and the unknown top-level members of
// the body in a header, because they may be misspelt. Known members that are not stored, such
// as input, are not listed. It depends on the query, the body and the configuration alone, so that a replay
// has the header as well.
func (c *call) listIgnored() {
	names := append(slices.Clone(c.inert), c.given.unknown...)
	for _, m := range c.members {
		if len(names) > namelist.Max {
			break
		}
		if !c.op.body.Names(m.Name) && !namelist.IsClients(m.Name) {
			names = append(names, m.Name)
		}
	}
	if names != nil {
		c.header.Set("X-Preset-Ignored", namelist.OfClients(names))
	}
}
