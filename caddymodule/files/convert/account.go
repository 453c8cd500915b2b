package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
)

const (
	// maxTries bounds how often a request is sent.
	maxTries = 5
	// maxWait bounds the pause before a repeated request.
	maxWait = 30 * time.Second
	// responseTime bounds the time of one response.
	responseTime = time.Minute
	// maxPages bounds the pages of a list.
	maxPages = 1000
)

// account reads a live account.
type account struct {
	*conversion
	base   string // without a slash at its end
	header http.Header
	left   int64 // bytes that answers may still have
}

// account returns the account of the input. Its requests have a header with the credential,
// if there is one.
func (c *conversion) account(header, value string) (*account, error) {
	u, err := url.Parse(c.input)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the URL of an account has a scheme, a host and perhaps a path, and neither a password nor a query")
	}
	a := &account{c, strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"), http.Header{"Accept": {"application/json"}}, maxInput}
	if c.options.Key != "" {
		a.header.Set(header, value)
	}
	return a, nil
}

// statusError is a response with another status than 200.
type statusError struct {
	status int
	path   string
}

// Error has nothing of the response's body, which may repeat a credential.
func (e *statusError) Error() string {
	text := fmt.Sprintf("GET %s was answered %d %s", e.path, e.status, http.StatusText(e.status))
	if e.status >= 300 && e.status < 400 {
		text += ": redirects are not followed, since the key is for this address alone"
	}
	return text
}

// aboutOne are the statuses that concern the object which was asked for, and not the account.
var aboutOne = []int{http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusBadRequest, http.StatusInternalServerError}

// isStatus reports whether an error is a response with one of some statuses.
func isStatus(err error, statuses ...int) bool {
	refused, ok := errors.AsType[*statusError](err)
	return ok && slices.Contains(statuses, refused.status)
}

// get reads the JSON of a path below the base. The path is escaped. A request is repeated
// after a lost connection, and after a response that says try again. Redirects are not
// followed.
func (a *account) get(path string, query url.Values) (root node, err error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var text []byte
	err = client.Retry{Tries: maxTries, MaxWait: maxWait}.Do(a.ctx, func() (pause time.Duration, err error) {
		text, pause, err = a.once(path)
		return pause, err
	})
	if err != nil {
		return node{}, err
	}
	if root, err = a.file(path).parse(text); err != nil {
		return node{}, fmt.Errorf("the answer to GET %s %w", path, err)
	}
	return root, nil
}

// once sends a request once. pause is that of client.Retry.
func (a *account) once(path string) (text []byte, pause time.Duration, err error) {
	ctx, cancel := context.WithTimeout(a.ctx, cmp.Or(a.options.Timeout, responseTime))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, http.NoBody)
	if err != nil {
		return nil, -1, fmt.Errorf("the URL of the account is not valid for GET %s", path)
	}
	request.Header = a.header.Clone()
	transport := a.options.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, 0, fmt.Errorf("GET %s: %w", path, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, client.PauseAfter(response), &statusError{response.StatusCode, path}
	}
	if text, err = io.ReadAll(io.LimitReader(response.Body, a.left+1)); err != nil {
		return nil, 0, fmt.Errorf("reading the answer to GET %s: %w", path, err)
	}
	if a.left -= int64(len(text)); a.left < 0 {
		return nil, -1, fmt.Errorf("the answers have more than %d bytes in all", maxInput)
	}
	return text, 0, nil
}

// list reads the list data page by page, until it has as many items as the answer's total tells.
// It also ends at an empty page, and after two pages without anything new. Some servers
// count from 0, and some from 1. It returns the items, those with the same name once.
func (a *account) list(path string, query func(page int) url.Values, name func(item node) string) (items []node, err error) {
	seen := make(map[string]bool)
	idle := 0
	for page := range maxPages {
		root, err := a.get(path, query(page))
		if err != nil {
			return nil, err
		}
		data := root.get("data")
		if data.kind() != '[' {
			return nil, fmt.Errorf("the answer to GET %s has no list data: is this the address of the API?", path)
		}
		count, before := 0, len(items)
		for item := range data.items() {
			count++
			switch name := name(item); {
			case name == "":
				a.refuse(item, "has no name")
			case !seen[name]:
				seen[name] = true
				items = append(items, item)
			}
		}
		if idle++; len(items) > before {
			idle = 0
		}
		total := cmp.Or(root.get("total_count").number(), root.get("total").number(), root.get("meta").get("totalItems").number())
		if count == 0 || idle == 2 || total > 0 && len(items) >= total {
			return items, nil
		}
	}
	return nil, fmt.Errorf("GET %s has more than %d pages", path, maxPages)
}

// each reads items by their names. An error that concerns one of them is an entry of the report.
func (a *account) each(items []node, name func(item node) string, read func(item node, name string) error) error {
	for _, item := range items {
		name := name(item)
		err := read(item, name)
		switch {
		case isStatus(err, aboutOne...):
			a.entries = append(a.entries, Entry{Kind: NotWritten, Prompt: name, Message: err.Error()})
		case err != nil:
			return err
		}
	}
	return nil
}
