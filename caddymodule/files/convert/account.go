package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
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
	base      string // without a slash at its end
	header    http.Header
	transport http.RoundTripper
	wait      func(ctx context.Context, d time.Duration) error
	timeout   time.Duration // of one answer
	left      int64         // bytes that answers may still have
}

// account returns the account of the input. Its requests have a header with the credential,
// if there is one.
func (c *conversion) account(header, value string) (*account, error) {
	u, err := url.Parse(c.input)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the URL of an account has a scheme, a host and perhaps a path, and neither a password nor a query")
	}
	a := &account{
		base: strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"), header: http.Header{"Accept": {"application/json"}},
		transport: c.options.Transport, wait: c.options.Wait, left: maxInput,
		timeout: cmp.Or(c.options.Timeout, responseTime),
	}
	if a.transport == nil {
		a.transport = http.DefaultTransport
	}
	if a.wait == nil {
		a.wait = waitFor
	}
	if c.options.Key != "" {
		a.header.Set(header, value)
	}
	return a, nil
}

func waitFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// statusError is an answer that is no success.
type statusError struct {
	status int
	path   string
	pause  time.Duration // before it may be sent again, 0 if unknown
}

// Error has nothing of the answer's body, which may repeat a credential.
func (e *statusError) Error() string {
	text := fmt.Sprintf("GET %s was answered %d %s", e.path, e.status, http.StatusText(e.status))
	if e.status >= 300 && e.status < 400 {
		text += ": redirects are not followed, since the key is for this address alone"
	}
	return text
}

// canRepeat reports whether the same request may succeed later.
func (e *statusError) canRepeat() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return e.status == 529 // a provider is overloaded, as OpenRouter says it
}

// isAboutOne reports whether an error concerns the object that was asked for, and not the
// account.
func isAboutOne(err error) bool {
	refused, ok := errors.AsType[*statusError](err)
	return ok && (refused.status == http.StatusNotFound || refused.status == http.StatusUnprocessableEntity ||
		refused.status == http.StatusBadRequest || refused.status == http.StatusInternalServerError)
}

// isMissing reports whether an error is a 404.
func isMissing(err error) bool {
	refused, ok := errors.AsType[*statusError](err)
	return ok && refused.status == http.StatusNotFound
}

// get reads the JSON of a path below the base. The path is escaped. A request is repeated
// after a lost connection, and after an answer that says try again. Redirects are not
// followed.
func (a *account) get(ctx context.Context, path string, query url.Values) (node, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	for try := 1; ; try++ {
		text, err := a.once(ctx, path)
		if err == nil {
			root, err := parse(path, "", text)
			if err != nil {
				return node{}, fmt.Errorf("the answer to GET %s %w", path, err)
			}
			return root, nil
		}
		var pause time.Duration
		if refused, ok := errors.AsType[*statusError](err); ok {
			if !refused.canRepeat() {
				return node{}, err
			}
			pause = refused.pause
		} else if errors.Is(err, errTooLong) {
			return node{}, err
		}
		if ctx.Err() != nil || try == maxTries {
			return node{}, err
		}
		if err := a.wait(ctx, min(cmp.Or(pause, 250*time.Millisecond<<try), maxWait)); err != nil {
			return node{}, err
		}
	}
}

// errTooLong is the error of answers with more than maxInput in all.
var errTooLong = fmt.Errorf("the answers have more than %d bytes in all", maxInput)

func (a *account) once(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("the URL of the account is not valid for GET %s", path)
	}
	request.Header = a.header.Clone()
	response, err := a.transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return nil, &statusError{response.StatusCode, path, time.Duration(min(max(seconds, 0), int(maxWait/time.Second))) * time.Second}
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, a.left+1))
	if err != nil {
		return nil, fmt.Errorf("reading the answer to GET %s: %w", path, err)
	}
	if a.left -= int64(len(text)); a.left < 0 {
		return nil, errTooLong
	}
	return text, nil
}

// pages reads a list page by page, until it has as many items as the answer's total tells.
// It also ends at an empty page, and after two pages without anything new. Some servers
// count from 0, and some from 1. each gets the items of the member list, and returns whether
// it saw one for the first time.
func (a *account) pages(ctx context.Context, path, list string, query func(page int) url.Values, total func(node) node, each func(node) (isNew bool)) error {
	seen, idle, listed := 0, 0, 0
	for page := range maxPages {
		root, err := a.get(ctx, path, query(page))
		if err != nil {
			return err
		}
		items := root.get(list)
		if items.kind() != '[' {
			return fmt.Errorf("the answer to GET %s has no list %s: is this the address of the API?", path, list)
		}
		count, before := 0, seen
		for item := range items.items() {
			count++
			if listed++; listed > maxPrompts {
				return errTooManyPrompts
			}
			if each(item) {
				seen++
			}
		}
		if idle++; seen > before {
			idle = 0
		}
		if all := total(root).number(); count == 0 || idle == 2 || all > 0 && seen >= all {
			return nil
		}
	}
	return fmt.Errorf("GET %s has more than %d pages", path, maxPages)
}
