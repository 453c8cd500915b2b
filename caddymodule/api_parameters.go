package caddymodule

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/domain"
)

// parameters is what the query and the headers of a request say.
type parameters struct {
	query          url.Values
	workspace      string // to act in, or empty
	condition      domain.Condition
	idempotencyKey string
}

// sessionHeader names the session of a request (specification,
// "Authentication", item 5).
const sessionHeader = "X-Session-Id"

// readParameters takes what a request is about from the path, the query and the
// headers, before any body is read.
func (c *call) readParameters() (err error) {
	id := c.r.Header.Get(sessionHeader) // a body may override it
	if utf8.RuneCountInString(id) > domain.MaxSessionID {
		return domain.InvalidAt("x-session-id", "must be at most "+strconv.Itoa(domain.MaxSessionID)+" characters")
	}
	if id != "" {
		c.note("session_id", id)
	}
	if strings.HasPrefix(c.op.path, "presets/") {
		if err := domain.CheckPresetSlug(c.params[0]); err != nil {
			return err
		}
		c.note("slug", c.params[0])
	}
	if query := c.r.URL.RawQuery; query != "" {
		if c.given.query, err = url.ParseQuery(query); err != nil {
			return domain.InvalidAt("query", "malformed")
		}
	}
	if strings.HasPrefix(c.op.path, "presets") {
		if c.given.workspace, err = c.queried("workspace_id"); err != nil {
			return err
		}
	}
	if c.given.condition, err = readCondition(c.r.Header); err != nil || c.op.method == http.MethodGet {
		return err
	}
	c.given.idempotencyKey, err = readIdempotencyKey(c.r.Header)
	return err
}

// queried returns a parameter of the query that is given once and not empty, or
// "" where it is not given.
func (c *call) queried(name string) (string, error) {
	switch given := c.given.query[name]; {
	case len(given) == 0:
		return "", nil
	case len(given) > 1:
		return "", domain.InvalidAt(name, "given more than once")
	case given[0] == "":
		return "", domain.InvalidAt(name, "must not be empty") // an unset variable, more likely than not
	default:
		return given[0], nil
	}
}

// readPage reads offset and limit, of which clients send empty ones.
func (c *call) readPage() (page domain.Page, err error) {
	number := func(name string, otherwise, least, most int, rule string) int {
		given := c.given.query[name]
		if len(given) == 0 || len(given) == 1 && given[0] == "" {
			return otherwise
		}
		n, broken := strconv.ParseUint(given[0], 10, strconv.IntSize-1) // which takes no sign
		if (len(given) > 1 || broken != nil || int(n) < least || int(n) > most) && err == nil {
			err = domain.InvalidAt(name, "must be "+rule)
		}
		return int(n)
	}
	page.Offset = number("offset", 0, 0, math.MaxInt, "an integer of at least 0")
	page.Limit = number("limit", domain.DefaultPage, 1, domain.MaxPage, "an integer from 1 to "+strconv.Itoa(domain.MaxPage))
	return page, err
}

// readCondition reads the headers of a conditional request (RFC 9110, 13.1.1 and
// 13.1.2).
func readCondition(header http.Header) (condition domain.Condition, err error) {
	if condition.Match, err = readTags(header, "If-Match", false); err != nil {
		return condition, err
	}
	condition.NoneMatch, err = readTags(header, "If-None-Match", true)
	return condition, err
}

// readTags reads the entity tags of a header, nil where there is none. Weak ones
// are kept where they count.
func readTags(header http.Header, name string, weak bool) (*domain.Tags, error) {
	lines := header.Values(name)
	if lines == nil {
		return nil, nil
	}
	malformed := domain.InvalidAt(strings.ToLower(name), `must be * or entity tags such as "0123456789abcdef"`)
	text := strings.Trim(strings.Join(lines, ","), " \t")
	if text == "*" {
		return &domain.Tags{Any: true}, nil
	}
	const blank = ", \t" // lists may have empty elements (RFC 9110, 5.6.1.2)
	text = strings.TrimLeft(text, blank)
	if text == "" {
		return nil, malformed
	}
	tags := new(domain.Tags)
	for text != "" {
		opaque, isWeak := strings.CutPrefix(text, "W/")
		opaque, quoted := strings.CutPrefix(opaque, `"`)
		tag, rest, closed := strings.Cut(opaque, `"`)
		rest = strings.TrimLeft(rest, " \t")
		if !quoted || !closed || rest != "" && rest[0] != ',' {
			return nil, malformed
		}
		if !isWeak || weak {
			// Caddy's encode handler adds the coding to tags, behind a hyphen,
			// and clients send it back.
			tag, _, _ = strings.Cut(tag, "-")
			tags.List = append(tags.List, tag)
		}
		text = strings.TrimLeft(rest, blank)
	}
	return tags, nil
}

// readIdempotencyKey returns the client's own name for the request, "" for none.
func readIdempotencyKey(header http.Header) (string, error) {
	const name = "idempotency-key"
	switch given := header.Values("Idempotency-Key"); {
	case len(given) == 0:
		return "", nil
	case len(given) > 1:
		return "", domain.InvalidAt(name, "given more than once")
	case given[0] == "":
		return "", domain.InvalidAt(name, "must not be empty")
	case utf8.RuneCountInString(given[0]) > domain.MaxIdempotencyKey:
		return "", domain.InvalidAt(name, "must be at most "+strconv.Itoa(domain.MaxIdempotencyKey)+" characters")
	default:
		return given[0], nil
	}
}

// write returns the terms of the change that the request asks for.
func (c *call) write() domain.Write {
	w := domain.Write{Who: c.who, RequestID: c.requestID(), Condition: c.given.condition}
	if c.given.idempotencyKey != "" {
		w.Idempotency = domain.Idempotency{Key: c.given.idempotencyKey, Request: c.digest()}
	}
	return w
}

// requestID returns {http.request.uuid}, or "" where no Caddy is around. Access logs
// show it as uuid.
func (c *call) requestID() string {
	if c.id == "" && c.repl != nil {
		c.id, _ = c.repl.GetString("http.request.uuid")
	}
	return c.id
}

// digest returns a digest of all that decides what the request does.
func (c *call) digest() [sha256.Size]byte {
	var text []byte
	add := func(part string) {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	add(c.op.name)
	for _, param := range c.params {
		add(param)
	}
	add(c.given.query.Encode())
	add(string(c.body))
	return sha256.Sum256(text)
}
