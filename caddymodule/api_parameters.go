package caddymodule

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/etag"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
	"github.com/caddy-presets/caddy-presets/schema"
)

// parameters are read from the path, the query and the headers of a request.
type parameters struct {
	query          url.Values
	unknown        []string // the parameters of the query that the operation does not have, sorted
	isTemplate     bool
	workspace      string // to act in, or empty
	page           domain.Page
	condition      domain.Condition
	idempotencyKey string
	owner          string // of presets that the request makes or adopts, or empty
	override       string // the owner of presets that the request changes, or empty
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
		if c.given.workspace, err = c.queried("workspace_id"); err != nil {
			return err
		}
	}
	if c.op.is(paged) {
		if c.given.page, err = c.readPage(domain.DefaultPage); err != nil {
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
	c.given.override, err = readOnce(c.r.Header, "X-Preset-Override")
	return err
}

// readQuery reads the query, and refuses unknown parameters of a change.
func (c *call) readQuery() (err error) {
	if c.r.URL.RawQuery == "" {
		return nil
	}
	if c.given.query, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return domain.InvalidAt("query", "malformed")
	}
	known := c.op.parameters()
	for name := range c.given.query {
		if !slices.Contains(known, name) {
			c.given.unknown = append(c.given.unknown, name)
		}
	}
	slices.Sort(c.given.unknown)
	if c.given.unknown != nil && c.op.is(changes) {
		issues := make([]domain.Issue, min(len(c.given.unknown), maxIgnored))
		for i := range issues {
			issues[i] = domain.Issue{Path: headerName(c.given.unknown[i]), Message: "is no parameter of this request"}
		}
		return domain.InvalidIssues(issues...)
	}
	if c.op.body.template != nil {
		isTemplate, err := c.queriedFlag("template")
		c.given.isTemplate = isTemplate != nil && *isTemplate
		return err
	}
	return nil
}

// slug returns the preset slug of the path, "" if the operation has none.
func (c *call) slug() string { return c.found.Value("slug") }

// queried returns a parameter of the query, "" if it is absent. It must not be empty or
// given twice.
func (c *call) queried(name string) (string, error) {
	return domain.OnlyValue(name, c.given.query[name])
}

// queriedWord is queried for a parameter that is one of some words. It returns one of them, and not
// the request's text.
func (c *call) queriedWord(name string, words ...string) (string, error) {
	text, err := c.queried(name)
	if err != nil || text == "" {
		return "", err
	}
	if at := slices.Index(words, text); at >= 0 {
		return words[at], nil
	}
	last := len(words) - 1
	return "", domain.InvalidAt(name, "must be "+strings.Join(words[:last], ", ")+" or "+words[last])
}

// queriedFlag is queried for a parameter that is true or false, nil if it is absent.
func (c *call) queriedFlag(name string) (*bool, error) {
	word, err := c.queriedWord(name, "true", "false")
	if err != nil || word == "" {
		return nil, err
	}
	return new(word == "true"), nil
}

// readPage reads offset and limit, whose default is given. Both may be empty, since clients send
// them so.
func (c *call) readPage(size int) (page domain.Page, err error) {
	if page.Offset, err = c.queriedNumber("offset", 0, 0, math.MaxInt, "an integer of at least 0"); err != nil {
		return page, err
	}
	page.Limit, err = c.queriedNumber("limit", size, 1, domain.MaxPage, "an integer from 1 to "+strconv.Itoa(domain.MaxPage))
	return page, err
}

// queriedNumber is queried for a number. The rule says which.
func (c *call) queriedNumber(name string, otherwise, least, most int, rule string) (int, error) {
	if given := c.given.query[name]; len(given) == 0 || len(given) == 1 && given[0] == "" {
		return otherwise, nil
	}
	text, err := c.queried(name)
	if err != nil {
		return 0, err
	}
	n, ok := domain.ParseNumber(text)
	if !ok || n < least || n > most {
		return 0, domain.InvalidAt(name, "must be "+rule)
	}
	return n, nil
}

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
		Owner: c.given.owner, Override: c.given.override,
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
	add(c.given.query.Encode())
	add(c.given.owner)
	add(c.given.override)
	add(string(c.body))
	return sha256.Sum256(text)
}

const (
	// maxIgnored is how many ignored names a header has, and how many unknown ones an error.
	maxIgnored = 20
	// maxIgnoredName is how many bytes of such a name it has.
	maxIgnoredName = 64
)

// knownToClients are members that official clients send. Presets do not store them, and no
// schema names them. They are not misspelt.
var knownToClients = map[string]bool{
	// OpenAI's, chat completions and responses
	"n": true, "store": true, "audio": true, "safety_identifier": true, "prompt_cache_retention": true, "function_call": true, "functions": true,
	"conversation": true, "stream_options": true, "context_management": true, "moderation": true,
	// OpenRouter's
	"transforms": true, "usage": true,
	// Anthropic's
	"container": true, "mcp_servers": true, "betas": true, "inference_geo": true,
	// LiteLLM's
	"extra_body": true,
}

// settingNames returns the members that a captured request may have, as a JSON object: for the
// last part of each dialect's route the names, with spaces between. listIgnored names others.
func settingNames(schemas *schema.Schemas) (string, error) {
	names := make(map[domain.Dialect]string)
	for dialect, s := range map[domain.Dialect]*schema.Schema{
		domain.Chat: schemas.ChatRequest, domain.Responses: schemas.ResponsesRequest, domain.Messages: schemas.MessagesRequest,
	} {
		list := slices.AppendSeq(s.MemberNames(), maps.Keys(knownToClients))
		slices.Sort(list)
		names[dialect] = strings.Join(slices.Compact(list), " ")
	}
	text, err := json.Marshal(names)
	return string(text), err
}

// listIgnored names the unknown parameters of the query and the unknown top-level members of
// the body in a header, because they may be misspelt. Known members that are not stored, such
// as input, are not listed. It depends on the query and the body alone, so that a replay
// has the header as well.
func (c *call) listIgnored() {
	names := slices.Clone(c.given.unknown)
	for _, m := range c.members {
		if len(names) > maxIgnored {
			break
		}
		if !c.op.body.Names(m.Name) && !knownToClients[m.Name] {
			names = append(names, m.Name)
		}
	}
	if names = append(names, c.inert...); names == nil {
		return
	}
	if len(names) > maxIgnored {
		names = append(names[:maxIgnored], "...")
	}
	for i, name := range names {
		names[i] = headerName(name)
	}
	c.header.Set("X-Preset-Ignored", headerList(names))
}

// headerName returns a name that a client chose for a list in a header, or for an error. It cuts long names. It
// percent-encodes all but ASCII letters, digits and `_ . ~ - $ & + : = @`.
func headerName(name string) string {
	switch {
	case name == "":
		return `""`
	case len(name) > maxIgnoredName:
		return url.PathEscape(name[:maxIgnoredName]) + "..."
	default:
		return url.PathEscape(name)
	}
}
