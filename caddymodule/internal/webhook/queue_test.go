package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

var usual = Limits{
	Waiting: 10_000, Parallel: 16, Timeout: 10 * time.Second,
	First: time.Second, Longest: 5 * time.Minute, Tries: 25, Age: time.Hour,
}

// pipes is a listener whose connections are in memory. Time in a synctest bubble can pass
// while they are idle.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accept:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.accept <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// posted is a request that a receiver got.
type posted struct {
	slug   string
	number int
	after  time.Duration // since the test's begin
}

// queueTest is a queue with a real HTTP server as its receiver, in a synctest bubble.
type queueTest struct {
	*Queue
	t      *testing.T
	to     *Receiver
	logged *observer.ObservedLogs
	server *http.Server

	mu  sync.Mutex
	got []posted
}

// newQueueTest returns a queue whose requests answer answers, after they were recorded.
func newQueueTest(t *testing.T, by Limits, response func(p posted, w http.ResponseWriter, r *http.Request)) *queueTest {
	t.Helper()
	counter := func(name string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, []string{"by"})
	}
	core, logged := observer.New(zap.DebugLevel)
	q := &queueTest{
		Queue: newQueue(by), t: t, logged: logged,
		to: &Receiver{
			"http://receiver.test/token-of-the-tests", "receiver.test", []byte("webhook-secret-of-the-tests"), zap.New(core),
			counter("requests"), counter("dropped"),
		},
	}
	listener := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	q.transport.Proxy, q.transport.DialContext = nil, listener.dial
	begin := time.Now()
	q.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e struct {
			Slug   string
			Number int
		}
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		p := posted{e.Slug, e.Number, time.Since(begin)}
		q.mu.Lock()
		q.got = append(q.got, p)
		q.mu.Unlock()
		response(p, w, r)
	})}
	go func() { _ = q.server.Serve(listener) }()
	q.add(q.to)
	return q
}

// end stops the queue at once, and the receiver.
func (q *queueTest) end() {
	q.Stop(0)
	q.close()
}

// close ends the receiver with its handlers.
func (q *queueTest) close() {
	if err := q.server.Shutdown(context.Background()); err != nil {
		q.t.Error(err)
	}
}

// event queues an event of a preset.
func (q *queueTest) event(slug string, number int) {
	body := fmt.Appendf(nil, `{"slug":%q,"number":%d}`, slug, number)
	q.push(Event{Object: "id of " + slug, Kind: "designated", Number: number, At: time.Now(), Body: body})
}

// posts returns the requests so far.
func (q *queueTest) posts() []posted {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.got)
}

// dropped returns the number of events that were dropped for a reason.
func (q *queueTest) dropped(reason string) int {
	return int(testutil.ToFloat64(q.to.Dropped.WithLabelValues(reason)))
}

// TestBackoff checks that a failed event is sent again after growing intervals. It is
// dropped after its age or its tries. The next one is then sent.
func TestBackoff(t *testing.T) {
	for _, tc := range []struct {
		name  string
		by    Limits
		least int
		most  int
	}{
		{"by age", Limits{Waiting: 9, Parallel: 1, Timeout: time.Second, First: time.Second, Longest: time.Minute, Tries: 1000, Age: time.Hour}, 42, 130},
		{"by tries", Limits{Waiting: 9, Parallel: 1, Timeout: time.Second, First: time.Second, Longest: time.Minute, Tries: 7, Age: time.Hour}, 7, 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueueTest(t, tc.by, func(p posted, w http.ResponseWriter, _ *http.Request) {
					if p.number == 1 {
						w.WriteHeader(500)
					}
				})
				defer q.end()
				q.event("p", 1)
				q.event("p", 2)
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				got := q.posts()
				tries := len(got) - 1
				if tries < tc.least || tries > tc.most || got[tries].number != 2 {
					t.Fatalf("got %v, want %d to %d tries and then the next event", got, tc.least, tc.most)
				}
				for i := 1; i < tries; i++ {
					mean := min(time.Second<<min(i-1, 10), time.Minute)
					if wait := got[i].after - got[i-1].after; wait < mean/2 || wait > mean*3/2+time.Second {
						t.Errorf("try %d comes after %v, want about %v", i+1, wait, mean)
					}
				}
				if last := got[tries-1].after; last > time.Hour {
					t.Errorf("the last try comes after %v", last)
				}
				if q.dropped(droppedFailed) != 1 || int(testutil.ToFloat64(q.to.Requests.WithLabelValues("failed"))) != tries {
					t.Error("the metrics do not tell")
				}
				for _, entry := range q.logged.All() {
					if text := fmt.Sprint(entry.Message, entry.ContextMap()); strings.Contains(text, "-of-the-tests") {
						t.Errorf("the log has %s", text)
					}
				}
			})
		})
	}
}

// TestOldEvent checks that each event is tried once, however old it is.
func TestOldEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueTest(t, usual, func(_ posted, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) })
		defer q.end()
		q.push(Event{At: time.Now().Add(-24 * time.Hour), Body: []byte("{}")})
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		if got := q.posts(); len(got) != 1 || q.dropped(droppedFailed) != 1 {
			t.Errorf("got %v, want one try", got)
		}
	})
}

// TestRetryAfter checks that the receiver decides when an event is sent again.
func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		value       string
		least, most time.Duration
	}{
		{"90", 90 * time.Second, 90 * time.Second},
		{"0", time.Second, time.Second},
		{"-5", time.Second, time.Second},
		{"86400", 5 * time.Minute, 5 * time.Minute},
		{"99999999999999999999", time.Second / 2, time.Second * 3 / 2},
		{"soon", time.Second / 2, time.Second * 3 / 2},
		{"date", 118 * time.Second, 120 * time.Second},
	} {
		t.Run(tc.value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := true
				q := newQueueTest(t, usual, func(_ posted, w http.ResponseWriter, _ *http.Request) {
					if first {
						first = false
						value := tc.value
						if value == "date" {
							value = time.Now().Add(2 * time.Minute).UTC().Format(http.TimeFormat)
						}
						w.Header().Set("Retry-After", value)
						w.WriteHeader(429)
					}
				})
				defer q.end()
				q.event("p", 1)
				time.Sleep(time.Hour)
				synctest.Wait()
				got := q.posts()
				if len(got) != 2 || got[1].after < tc.least || got[1].after > tc.most {
					t.Errorf("got %v, want the second try after %v to %v", got, tc.least, tc.most)
				}
			})
		})
	}
}

// TestOrder checks that events of one preset are sent in their order, one after
// another. A preset whose events fail, or are taken slowly, delays no other.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(map[int]bool)
		var mu sync.Mutex
		q := newQueueTest(t, usual, func(p posted, w http.ResponseWriter, r *http.Request) {
			switch p.slug {
			case "failing":
				mu.Lock()
				again := failed[p.number]
				failed[p.number] = true
				mu.Unlock()
				if !again {
					w.WriteHeader(502)
				}
			case "slow":
				time.Sleep(5 * time.Second)
			}
		})
		defer q.end()
		for n := range 30 {
			q.event([]string{"failing", "slow", "quick"}[n%3], n)
		}
		synctest.Wait()
		for _, p := range q.posts() {
			if p.after != 0 {
				t.Errorf("got %v at once", p)
			}
		}
		quick := 0
		for _, p := range q.posts() {
			if p.slug == "quick" {
				quick++
			}
		}
		if quick != 10 {
			t.Errorf("%d events of the quick preset were sent at once, want 10", quick)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		next := map[string]int{"failing": 0, "slow": 1, "quick": 2}
		for _, p := range q.posts() {
			if p.slug == "failing" && p.number == next[p.slug]-3 {
				continue // it is sent again
			}
			if p.number != next[p.slug] {
				t.Errorf("got event %d of %s, want %d", p.number, p.slug, next[p.slug])
			}
			next[p.slug] = p.number + 3
		}
		if len(q.posts()) != 40 || q.waiting != 0 || len(q.lanes) != 0 {
			t.Errorf("got %d requests, want 40, and %d events wait", len(q.posts()), q.waiting)
		}
	})
}

// TestQueueIsBounded checks that events beyond the bound are dropped and counted, and
// that the requests at once are bounded.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := usual
		by.Waiting, by.Parallel = 10, 3
		release := make(chan struct{})
		q := newQueueTest(t, by, func(posted, http.ResponseWriter, *http.Request) { <-release })
		defer q.end()
		for n := range 12 {
			q.event(fmt.Sprint("p", n%5), n)
		}
		synctest.Wait()
		if got := len(q.posts()); got != 3 || q.dropped(droppedFull) != 2 {
			t.Errorf("got %d requests at once and %d dropped, want 3 and 2", got, q.dropped(droppedFull))
		}
		close(release)
		synctest.Wait()
		if got := len(q.posts()); got != 10 {
			t.Errorf("got %d requests, want 10", got)
		}
		q.event("p", 12) // there is room again
		synctest.Wait()
		if got := len(q.posts()); got != 11 {
			t.Errorf("got %d requests, want 11", got)
		}
	})
}

// TestTimeout checks that a receiver that hangs does not keep a request for long.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := true
		q := newQueueTest(t, usual, func(_ posted, _ http.ResponseWriter, r *http.Request) {
			if hang {
				hang = false
				<-r.Context().Done()
			}
		})
		defer q.end()
		q.event("p", 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := q.posts(); len(got) != 2 || got[1].after < usual.Timeout || got[1].after > usual.Timeout+2*time.Second {
			t.Errorf("got %v", got)
		}
	})
}

// TestQueueStop checks that a queue that stops sends what it can within the limit, and
// counts the rest. It keeps no goroutine, or the bubble would fail.
func TestQueueStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueTest(t, usual, func(p posted, w http.ResponseWriter, _ *http.Request) {
			switch p.slug {
			case "down":
				w.WriteHeader(503)
			case "slow":
				time.Sleep(2 * time.Second)
			}
		})
		for n := range 4 {
			q.event("down", n)
			q.event("slow", n)
		}
		begin := time.Now()
		q.Stop(5 * time.Second)
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("it took %v, want 5s", took)
		}
		delivered := int(testutil.ToFloat64(q.to.Requests.WithLabelValues("delivered")))
		if delivered != 2 || q.dropped(droppedStop) != 6 || q.dropped(droppedFailed) != 0 {
			t.Errorf("%d were delivered and %d dropped, want 2 and 6", delivered, q.dropped(droppedStop))
		}
		q.close()

		idle := newQueueTest(t, usual, func(posted, http.ResponseWriter, *http.Request) {})
		begin = time.Now()
		idle.event("p", 1)
		idle.Stop(time.Hour)
		if took := time.Since(begin); took != 0 || len(idle.posts()) != 1 {
			t.Errorf("it took %v without a need", took)
		}
		idle.close()
	})
}

// TestRedirect checks that no redirect is followed: the event would go elsewhere.
func TestRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueueTest(t, usual, func(_ posted, w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/elsewhere") {
					t.Error("the redirect was followed")
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, strings.Repeat("x", 1<<20)) // which nobody reads
			})
			q.event("p", 1)
			time.Sleep(10 * time.Second)
			q.end()
			if len(q.posts()) < 3 || q.dropped(droppedStop) != 1 {
				t.Errorf("%d: got %v, want it to be sent again", status, q.posts())
			}
		})
	}
}

// TestNothingIsQuoted checks that the log has nothing of a receiver's answer, which may be long
// and have the token of the URL.
func TestNothingIsQuoted(t *testing.T) {
	for name, response := range map[string]string{
		"a location":    "HTTP/1.1 302 Found\r\nLocation: /token-of-the-tests%\r\nContent-Length: 0\r\n\r\n",
		"a long header": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("token-of-the-tests ", 8<<10) + "\r\n\r\n",
		"no HTTP":       "token-of-the-tests\r\n\r\n",
		"a status":      "HTTP/1.1 token-of-the-tests\r\n\r\n",
		"a length":      "HTTP/1.1 200 OK\r\nContent-Length: token-of-the-tests\r\n\r\n",
		"an encoding":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: token-of-the-tests\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueueTest(t, usual, func(_ posted, w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, response)
				conn.Close()
			})
			q.event("p", 1)
			time.Sleep(10 * time.Second)
			q.end()
			if len(q.posts()) < 3 || q.logged.Len() < 3 {
				t.Errorf("%s: got %v, want it to be sent again", name, q.posts())
			}
			for _, entry := range q.logged.All() {
				if text := fmt.Sprint(entry.Message, entry.ContextMap()); strings.Contains(text, "-of-the-tests") || len(text) > 1<<10 {
					t.Errorf("%s: the log has %.300s", name, text)
				}
			}
		})
	}
}
