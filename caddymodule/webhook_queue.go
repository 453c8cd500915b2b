package caddymodule

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/caddy-presets/caddy-presets/domain"
)

// limits bound the work for one webhook.
type limits struct {
	waiting  int           // events that wait or are being sent
	parallel int64         // requests at once
	timeout  time.Duration // of a request
	first    time.Duration // the mean wait after the first failure, and the shortest Retry-After
	longest  time.Duration // the mean wait at most, and the longest Retry-After
	tries    uint          // of one event
	age      time.Duration // an older event is not tried again
}

var webhookLimits = limits{
	waiting: 10_000, parallel: 16, timeout: 10 * time.Second,
	first: time.Second, longest: 5 * time.Minute, tries: 25, age: time.Hour,
}

// Reasons for which an event is dropped.
const (
	droppedFull   = "queue_full"
	droppedFailed = "failed"  // all tries failed
	droppedStop   = "stopped" // the process or the webhook ended
)

// delivery is an event on its way to a webhook.
type delivery struct {
	object string // the id of its preset or workspace
	kind   string
	number int // of its audit record
	at     time.Time
	body   []byte
}

// newDelivery returns the delivery of a change's event.
func newDelivery(done domain.AuditRecord) delivery {
	kind := eventTypes[done.Operation]
	body, _ := json.Marshal(struct { // never fails
		ID   string         `json:"id"`
		Type string         `json:"type"`
		Time time.Time      `json:"time"`
		Data map[string]any `json:"data"`
	}{uuid.NewString(), kind, done.Time, eventData(done)})
	return delivery{done.Object.ID, kind, done.Number, time.Now(), body}
}

// webhookQueue sends events to one receiver. Those of one object are sent one after
// another, in their order. Its methods are safe for concurrent use.
type webhookQueue struct {
	limits
	client *http.Client
	slots  *semaphore.Weighted // of requests
	gone   context.Context     // ends when nothing is sent any more
	end    context.CancelFunc

	running sync.WaitGroup // lanes
	mu      sync.Mutex
	uses    []*webhookUse         // the newest last
	last    *webhookUse           // the newest of uses, or the one that was removed last
	lanes   map[string][]delivery // by object; the first of each is being sent
	waiting int
}

func newWebhookQueue(by limits) *webhookQueue {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = int(by.parallel)
	q := &webhookQueue{
		limits: by, slots: semaphore.NewWeighted(by.parallel), lanes: make(map[string][]delivery),
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	q.gone, q.end = context.WithCancel(context.Background())
	return q
}

// add makes a use the newest.
func (q *webhookQueue) add(use *webhookUse) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.uses, q.last = append(q.uses, use), use
}

// remove removes a use and reports whether it was the only one.
func (q *webhookQueue) remove(use *webhookUse) (only bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.uses = slices.DeleteFunc(q.uses, func(other *webhookUse) bool { return other == use })
	if len(q.uses) > 0 {
		q.last = q.uses[len(q.uses)-1]
	}
	return len(q.uses) == 0
}

// newest returns the use whose settings apply.
func (q *webhookQueue) newest() *webhookUse {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

// push queues an event, or drops it if too many wait. It does not wait.
func (q *webhookQueue) push(d delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting >= q.limits.waiting {
		q.last.recordDrop(d, droppedFull, nil)
		return
	}
	q.waiting++
	q.lanes[d.object] = append(q.lanes[d.object], d)
	if len(q.lanes[d.object]) == 1 {
		q.running.Go(func() { q.sendAll(d.object) })
	}
}

// sendAll sends the events of an object until none waits.
func (q *webhookQueue) sendAll(object string) {
	for {
		q.mu.Lock()
		d := q.lanes[object][0]
		q.mu.Unlock()
		switch err := q.deliver(d); {
		case err == nil:
		case q.gone.Err() != nil:
			q.newest().recordDrop(d, droppedStop, nil)
		default:
			q.newest().recordDrop(d, droppedFailed, err)
		}
		q.mu.Lock()
		q.waiting--
		q.lanes[object][0] = delivery{} // frees the body
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
func (u *webhookUse) recordDrop(d delivery, reason string, err error) {
	u.metrics.webhookDropped.WithLabelValues(reason).Inc()
	u.logger.Error("webhook event dropped", zap.String("host", u.host), zap.String("reason", reason),
		zap.String("type", d.kind), zap.Int("audit_number", d.number), zap.Error(err))
}

// deliver sends an event until the receiver takes it, within the limits. It tries at least
// once, unless the queue ends.
func (q *webhookQueue) deliver(d delivery) error {
	_, err := backoff.Retry(q.gone, func() (struct{}, error) { return struct{}{}, q.try(d) },
		backoff.WithBackOff(&backoff.ExponentialBackOff{
			InitialInterval: q.first, MaxInterval: q.longest,
			Multiplier: 2, RandomizationFactor: backoff.DefaultRandomizationFactor,
		}),
		backoff.WithMaxTries(q.tries),
		backoff.WithMaxElapsedTime(max(q.age-time.Since(d.at), 1)), // 0 is no limit
		backoff.WithNotify(func(err error, next time.Duration) {
			u := q.newest()
			u.logger.Warn("webhook request failed and will be repeated", zap.String("host", u.host),
				zap.String("type", d.kind), zap.Int("audit_number", d.number), zap.Duration("after", next), zap.Error(err))
		}))
	return err
}

// try makes one request and counts it.
func (q *webhookQueue) try(d delivery) error {
	if err := q.slots.Acquire(q.gone, 1); err != nil {
		return err
	}
	defer q.slots.Release(1)
	u := q.newest()
	err := q.send(u, d.body)
	result := "delivered"
	if err != nil {
		result = "failed"
	}
	u.metrics.webhookRequests.WithLabelValues(result).Inc()
	return err
}

// send posts a body. A status other than 2xx is an error. Errors do not show the URL, which
// may hold a token.
func (q *webhookQueue) send(u *webhookUse, body []byte) error {
	ctx, cancel := context.WithTimeout(q.gone, q.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is invalid")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "caddy-presets")
	r.Header.Set("X-Presets-Signature", sign(u.secret, time.Now(), body))
	answer, err := q.client.Do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 16<<10) // so that the connection can be used again
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return q.refusal(answer)
}

// sign returns the value of X-Presets-Signature.
func sign(secret []byte, now time.Time, body []byte) string {
	t := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// refusal returns the error of an answer. The receiver's Retry-After counts within the
// limits.
func (q *webhookQueue) refusal(answer *http.Response) error {
	refused := fmt.Errorf("the receiver answered %d", answer.StatusCode)
	text := answer.Header.Get("Retry-After")
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
	return fmt.Errorf("%w: %w", refused, &backoff.RetryAfterError{Duration: min(max(wait, q.first), q.longest)})
}

// stop gives the waiting events some time, and drops those that are not sent then. It
// returns when nothing is sent any more. Afterwards push must not be called.
func (q *webhookQueue) stop(within time.Duration) {
	deadline := time.AfterFunc(within, q.end)
	q.running.Wait()
	deadline.Stop()
	q.end()
	q.client.CloseIdleConnections()
}
