// Package webhook sends events to the receivers of a store's changes.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"
)

// Limits bound the work for one receiver.
type Limits struct {
	Waiting  int           // events that wait or are being sent
	Parallel int64         // requests at once
	Timeout  time.Duration // of a request
	First    time.Duration // the mean wait after the first failure, and the shortest Retry-After
	Longest  time.Duration // the mean wait at most, and the longest Retry-After
	Tries    uint          // of one event
	Age      time.Duration // an older event is not tried again
}

// Reasons for which an event is dropped.
const (
	droppedFull   = "queue_full"
	droppedFailed = "failed"  // all tries failed
	droppedStop   = "stopped" // the process or the webhook ended
)

// DropReasons returns the values of the label of Receiver.Dropped.
func DropReasons() []string { return []string{droppedFull, droppedFailed, droppedStop} }

// Receiver is a receiver of events, as one configuration describes it. It must not change
// after Queues.Add.
type Receiver struct {
	URL      string // may hold a token
	Host     string // of URL, for logs
	Secret   []byte // the key of signatures
	Logger   *zap.Logger
	Requests *prometheus.CounterVec // the label is "delivered" or "failed"
	Dropped  *prometheus.CounterVec // the label is one of DropReasons
}

// Event is one event for all receivers.
type Event struct {
	Object string // the id of its preset or workspace
	Kind   string
	Number int       // of its audit record
	At     time.Time // its age counts from here
	Body   []byte    // JSON, sent as it is
}

// Queue sends events to one receiver. Those of one object are sent one after
// another, in their order. Its methods are safe for concurrent use.
type Queue struct {
	limits    Limits
	transport *http.Transport
	slots     *semaphore.Weighted // of requests
	gone      context.Context     // ends when nothing is sent any more
	end       context.CancelFunc

	running   sync.WaitGroup // lanes
	mu        sync.Mutex
	receivers []*Receiver        // the newest last
	last      *Receiver          // the newest of receivers, or the one that was removed last
	lanes     map[string][]Event // by object; the first of each is being sent
	waiting   int

	delivered, failed atomic.Pointer[time.Time] // the last requests
}

func newQueue(by Limits) *Queue {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = int(by.Parallel)
	transport.MaxResponseHeaderBytes = maxResponseHeader
	q := &Queue{
		limits: by, slots: semaphore.NewWeighted(by.Parallel), lanes: make(map[string][]Event),
		transport: transport,
	}
	q.gone, q.end = context.WithCancel(context.Background())
	return q
}

// add makes a receiver the newest.
func (q *Queue) add(r *Receiver) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.receivers, q.last = append(q.receivers, r), r
}

// remove removes a receiver and reports whether it was the only one.
func (q *Queue) remove(r *Receiver) (only bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.receivers = slices.DeleteFunc(q.receivers, func(other *Receiver) bool { return other == r })
	if len(q.receivers) > 0 {
		q.last = q.receivers[len(q.receivers)-1]
	}
	return len(q.receivers) == 0
}

// newest returns the receiver whose settings apply.
func (q *Queue) newest() *Receiver {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

// push queues an event, or drops it if too many wait. It does not wait.
func (q *Queue) push(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting >= q.limits.Waiting {
		q.last.recordDrop(e, droppedFull, nil)
		return
	}
	q.waiting++
	q.lanes[e.Object] = append(q.lanes[e.Object], e)
	if len(q.lanes[e.Object]) == 1 {
		q.running.Go(func() { q.sendAll(e.Object) })
	}
}

// sendAll sends the events of an object until none waits.
func (q *Queue) sendAll(object string) {
	for {
		q.mu.Lock()
		e := q.lanes[object][0]
		q.mu.Unlock()
		switch err := q.deliver(e); {
		case err == nil:
		case q.gone.Err() != nil:
			q.newest().recordDrop(e, droppedStop, nil)
		default:
			q.newest().recordDrop(e, droppedFailed, err)
		}
		q.mu.Lock()
		q.waiting--
		q.lanes[object][0] = Event{} // frees the body
		rest := q.lanes[object][1:]
		if q.lanes[object] = rest; len(rest) == 0 {
			delete(q.lanes, object)
		}
		q.mu.Unlock()
		if len(rest) == 0 {
			return
		}
	}
}

// recordDrop counts and logs an event that the receiver does not get.
func (r *Receiver) recordDrop(e Event, reason string, err error) {
	r.Dropped.WithLabelValues(reason).Inc()
	r.Logger.Error("webhook event dropped", zap.String("host", r.Host), zap.String("reason", reason),
		zap.String("type", e.Kind), zap.Int("audit_number", e.Number), zap.Error(err))
}

// deliver sends an event until the receiver takes it, within the limits. It tries at least
// once, unless the queue ends.
func (q *Queue) deliver(e Event) error {
	_, err := backoff.Retry(q.gone, func() (struct{}, error) { return struct{}{}, q.try(e) },
		backoff.WithBackOff(&backoff.ExponentialBackOff{
			InitialInterval: q.limits.First, MaxInterval: q.limits.Longest,
			Multiplier: 2, RandomizationFactor: backoff.DefaultRandomizationFactor,
		}),
		backoff.WithMaxTries(q.limits.Tries),
		backoff.WithMaxElapsedTime(max(q.limits.Age-time.Since(e.At), 1)), // 0 is no limit
		backoff.WithNotify(func(err error, next time.Duration) {
			r := q.newest()
			r.Logger.Warn("webhook request failed and will be repeated", zap.String("host", r.Host),
				zap.String("type", e.Kind), zap.Int("audit_number", e.Number), zap.Duration("after", next), zap.Error(err))
		}))
	return err
}

// try makes one request and counts it.
func (q *Queue) try(e Event) error {
	if err := q.slots.Acquire(q.gone, 1); err != nil {
		return err
	}
	defer q.slots.Release(1)
	r := q.newest()
	err := q.send(r, e.Body)
	result, last := "delivered", &q.delivered
	if err != nil {
		result, last = "failed", &q.failed
	}
	last.Store(new(time.Now().UTC()))
	r.Requests.WithLabelValues(result).Inc()
	return err
}

// maxResponseHeader bounds the header of an answer, in bytes.
const maxResponseHeader = 64 << 10

// errResponse replaces errors that may quote what the receiver sent.
var errResponse = errors.New("the connection broke, or the receiver's answer is not HTTP")

// send posts a body. A status other than 2xx is an error, and redirects are not followed.
// Errors do not show the URL, which may hold a token. They quote nothing of an answer.
func (q *Queue) send(to *Receiver, body []byte) error {
	ctx, cancel := context.WithTimeout(q.gone, q.limits.Timeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is invalid")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "caddy-presets")
	r.Header.Set("X-Presets-Signature", Sign(to.Secret, time.Now(), body))
	response, err := q.transport.RoundTrip(r)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case connected.Load():
		return errResponse
	default:
		return err
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 16<<10) // so that the connection can be used again
	if response.StatusCode/100 == 2 {
		return nil
	}
	return q.refusal(response)
}

// Sign returns the value of X-Presets-Signature for a body that is sent at a time.
func Sign(secret []byte, now time.Time, body []byte) string {
	t := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// refusal returns the error of an answer. The receiver's Retry-After counts within the
// limits.
func (q *Queue) refusal(response *http.Response) error {
	refused := fmt.Errorf("the receiver answered %d", response.StatusCode)
	text := response.Header.Get("Retry-After")
	if text == "" {
		return refused
	}
	var wait time.Duration
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = time.Until(at)
	} else {
		return refused
	}
	return fmt.Errorf("%w: %w", refused, &backoff.RetryAfterError{Duration: min(max(wait, q.limits.First), q.limits.Longest)})
}

// Stop gives the waiting events some time, and drops those that are not sent then. It
// returns when nothing is sent any more. The queue must have been removed from its Queues.
func (q *Queue) Stop(within time.Duration) {
	deadline := time.AfterFunc(within, q.end)
	q.running.Wait()
	deadline.Stop()
	q.end()
	q.transport.CloseIdleConnections()
}
