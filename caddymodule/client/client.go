// Package client speaks the public API of a server: presets, versions, labels and
// workspaces. The commands for files and for people use it.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/envelope"
	"github.com/caddy-presets/caddy-presets/domain"
)

// Client sends requests to one server with one key. It is safe for concurrent use.
type Client struct {
	// Origin is the scheme, host and port of the server, such as https://gateway.example.com.
	// A base path other than /v1 belongs to it: https://gateway.example.com/api/v1.
	Origin string
	// Key is the secret of the key.
	Key string
	// Transport sends the requests; nil for http.DefaultTransport.
	Transport http.RoundTripper
	// Timeout bounds the time of one request, with reading its answer; 0 for 2 minutes. A request that
	// took so long is not repeated. Send has no such bound.
	Timeout time.Duration
	// Tries bounds how often a request is sent; 0 for 6, with pauses of 6 s in all.
	Tries int
}

// Request is a request to the API.
type Request struct {
	Method string
	// Path is below the base path and begins with a slash. Its segments are escaped.
	Path  string
	Query url.Values
	// Body is JSON, nil for none.
	Body []byte
	// Header has more headers, such as If-Match.
	Header http.Header
}

// Response is a response with a status from 200 to 299.
type Response struct {
	Header http.Header
	// Data is the member data of the body. Body is the whole.
	Data, Body json.RawMessage
	// Total is the member total_count of a page.
	Total int
}

// Tag returns the entity tag of the answer, as If-Match takes it.
func (a *Response) Tag() string { return a.Header.Get("ETag") }

// Error is an answer that is no success.
type Error struct {
	Status  int
	Message string
	// Issues are the places that are wrong. Message has those of a body.
	Issues []domain.Issue
	// RequestID finds the request in the server's log, empty if unknown.
	RequestID string
}

// Error returns the message of the server.
func (e *Error) Error() string { return e.Message }

// IsStatus reports whether err is an Error with a status.
func IsStatus(err error, status int) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Status == status
}

// PresetPath returns the path of a preset, or of something below it.
func PresetPath(slug string, below ...string) string {
	segments := []string{"/presets", url.PathEscape(slug)}
	for _, segment := range below {
		segments = append(segments, url.PathEscape(segment))
	}
	return strings.Join(segments, "/")
}

// Decode decodes JSON of a server.
func Decode(text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the answer has another form than expected: %w", err)
	}
	return nil
}

const (
	defaultTries = 6
	// maxWait bounds the pause before a repeated request.
	maxWait        = 10 * time.Second
	defaultTimeout = 2 * time.Minute
	// maxResponse bounds a response, in bytes. A page of 100 versions may have 26 MB.
	maxResponse = 64 << 20
	// statusOverloaded is what some providers answer if they have too much to do.
	statusOverloaded = 529
)

// Do sends a request, and returns a success. Anything else is an *Error, or the error of
// the connection.
//
// A request is repeated after a lost connection, and after 408, 429, 500, 502, 503, 504 and 529.
// A change is repeated only if it has an Idempotency-Key: it is made once all the same.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	if _, err := c.target(r); err != nil {
		return nil, err
	}
	tries := 1
	if r.Method == http.MethodGet || r.Header.Get("Idempotency-Key") != "" {
		tries = cmp.Or(c.Tries, defaultTries)
	}
	var response *Response
	err := Retry{Tries: tries, MaxWait: maxWait}.Do(ctx, func() (pause time.Duration, err error) {
		response, pause, err = c.once(ctx, r)
		return pause, err
	})
	return response, err
}

// Retry says how often something is tried, and how long the pauses between are.
type Retry struct {
	Tries   int
	MaxWait time.Duration
}

// Do calls try until it succeeds, and returns its last error. pause is how long to wait before the
// next one: 0 for longer each time, and negative if another one cannot help.
func (r Retry) Do(ctx context.Context, try func() (pause time.Duration, err error)) error {
	for tried := 1; ; tried++ {
		pause, err := try()
		if err == nil || pause < 0 || tried >= r.Tries || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(cmp.Or(pause, 100*time.Millisecond<<tried), r.MaxWait)):
		}
	}
}

// once sends a request once. pause is how long to wait before it is sent again. It is negative
// if that cannot help, and 0 if the server does not tell.
func (c *Client) once(ctx context.Context, r Request) (_ *Response, pause time.Duration, err error) {
	timeout := cmp.Or(c.Timeout, defaultTimeout)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() == nil && limited.Err() != nil {
			pause, err = -1, fmt.Errorf("%s has not answered %s %s within %s: %w", c.Origin, r.Method, r.Path, timeout, limited.Err())
		}
	}()
	response, err := c.Send(limited, r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, -1, ctx.Err()
		}
		return nil, 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("reading the answer to %s %s: %w", r.Method, r.Path, err)
	case len(body) > maxResponse:
		return nil, -1, fmt.Errorf("the answer to %s %s has more than %d bytes", r.Method, r.Path, maxResponse)
	case response.StatusCode < 200 || response.StatusCode > 299:
		return nil, PauseAfter(response), c.refusal(response, body)
	}
	var found struct {
		Data  json.RawMessage `json:"data"`
		Total int             `json:"total_count"`
	}
	if err := json.Unmarshal(body, &found); err != nil {
		return nil, -1, fmt.Errorf("the answer to %s %s is not JSON: is %s the origin of the presets handler?", r.Method, r.Path, c.Origin)
	}
	return &Response{Header: response.Header, Data: found.Data, Body: body, Total: found.Total}, 0, nil
}

// PauseAfter returns how long to wait after an answer that is no success, negative if the
// same request fails again.
func PauseAfter(response *http.Response) time.Duration {
	switch response.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, statusOverloaded:
	default:
		return -1
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return time.Duration(min(max(seconds, 0), 3600)) * time.Second
}

func (c *Client) refusal(response *http.Response, body []byte) error {
	refused := &Error{Status: response.StatusCode, RequestID: response.Header.Get("X-Request-Id")}
	var refusal envelope.API
	_ = json.Unmarshal(body, &refusal) // a proxy's may have another code, or be no JSON
	refused.Message = c.WithoutKey(cmp.Or(refusal.Error.Message, "the server answered "+response.Status))
	refused.RequestID = c.WithoutKey(refused.RequestID)
	if refusal.Error.Metadata != nil {
		for _, issue := range refusal.Error.Metadata.Issues {
			refused.Issues = append(refused.Issues, domain.Issue{Path: c.WithoutKey(issue.Path), Message: c.WithoutKey(issue.Message)})
		}
	}
	return refused
}

// WithoutKey returns text of a server, which may repeat the key in an error, with … in its place.
func (c *Client) WithoutKey(text string) string {
	if c.Key == "" {
		return text
	}
	return strings.ReplaceAll(text, c.Key, "…")
}

// Send sends a request once, and returns its response of any status. The caller closes the body.
func (c *Client) Send(ctx context.Context, r Request) (*http.Response, error) {
	target, err := c.target(r)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, target, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("making the request %s %s: %w", r.Method, r.Path, err)
	}
	for name, values := range r.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	request.Header.Set("Authorization", "Bearer "+c.Key)
	// A proxy that compresses an answer makes its entity tag weak, and If-Match takes none.
	request.Header.Set("Accept-Encoding", "identity")
	if r.Body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	transport := c.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	// A redirect is no success: it would carry the key to another server.
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("sending a request to %s://%s: %w", request.URL.Scheme, request.URL.Host, err)
	}
	return response, nil
}

func (c *Client) target(r Request) (string, error) {
	origin, err := url.Parse(c.Origin)
	if err != nil || origin.Scheme != "http" && origin.Scheme != "https" || origin.Host == "" || origin.User != nil || origin.RawQuery != "" || origin.Fragment != "" {
		return "", errors.New("the server must be an origin, such as https://gateway.example.com")
	}
	base := strings.TrimSuffix(origin.Scheme+"://"+origin.Host+origin.EscapedPath(), "/")
	if strings.Trim(origin.Path, "/") == "" {
		base += "/v1"
	}
	base += r.Path
	if len(r.Query) > 0 {
		base += "?" + r.Query.Encode()
	}
	return base, nil
}
