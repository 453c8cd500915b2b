//go:build faults

package faults

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestSlowClients runs slow clients: they send headers or bodies, or read answers, one
// byte at a time. The other clients' 99th percentile may at most double. The test
// measures it without and with slow clients in alternation, and takes the median. The
// machine may have other load, so a slower result is repeated up to four times.
func TestSlowClients(t *testing.T) {
	tier.Long(t)
	begun := time.Now()
	rounds, each := choose(5, 15), choose(100, 700)
	s := newServer(t, options{presets: "inference", gateway: "reverse_proxy " + newGateway(t)})
	s.mustStart()
	// A page of large versions fits into no buffer, so a slow reader keeps the server
	// waiting.
	for i := range 20 {
		body := fmt.Sprintf(`{"model":"m%d","instructions":%q}`, i, strings.Repeat("x", 200<<10))
		if a, err := s.send(http.MethodPost, "/v1/presets/large/responses", body); err != nil || a.status != http.StatusOK {
			t.Fatal(a, err)
		}
	}
	if a, err := s.send(http.MethodPost, "/v1/presets/p/responses", `{"model":"m"}`); err != nil || a.status != http.StatusOK {
		t.Fatal(a, err)
	}
	chat := func() (answer, error) {
		return s.send(http.MethodPost, "/v1/chat/completions", `{"model":"@preset/p","messages":[]}`, "Authorization", "Bearer "+inferenceKey)
	}
	kinds := []struct {
		name string
		send func() (answer, error)
	}{
		{"read", func() (answer, error) { return s.get("/v1/presets/p") }},
		{"write", func() (answer, error) {
			return s.send(http.MethodPost, "/v1/presets/p/responses", `{"model":"m"}`)
		}},
		{"inference", chat},
	}
	measure := func(send func() (answer, error)) time.Duration {
		const clients, period = 4, 250 * time.Millisecond
		var mu sync.Mutex
		var took []time.Duration
		var group sync.WaitGroup
		for range clients {
			group.Go(func() {
				for from := time.Now(); time.Since(from) < period; {
					start := time.Now()
					a, err := send()
					d := time.Since(start)
					if err != nil || a.status != http.StatusOK {
						t.Errorf("a client that is not slow gets %s, %v", a, err)
						return
					}
					mu.Lock()
					took = append(took, d)
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if len(took) == 0 {
			t.Fatal("no request was answered")
		}
		slices.Sort(took)
		return took[len(took)*99/100]
	}

	for _, kind := range kinds {
		measure(kind.send)
	}
	idle := s.footprint()
	want, largest := 3*each+slowReaders(each), footprint{}
	held := want
	served := func(f footprint) bool { return f.goroutines-idle.goroutines >= want }
	// compare returns the medians for one kind of request.
	compare := func(send func() (answer, error)) (a, b time.Duration) {
		var alone, beside []time.Duration
		for range rounds {
			alone = append(alone, measure(send))
			crowd := newCrowd(t, s, each)
			s.settledFootprint(30*time.Second, served)
			beside = append(beside, measure(send))
			if f := s.footprint(); f.rss > largest.rss {
				largest = f
			}
			// Slow clients have no effect once the server has closed their connections.
			held = min(held, crowd.leave())
		}
		t.Logf("99th percentiles alone %v, beside %v", alone, beside)
		slices.Sort(alone)
		slices.Sort(beside)
		return alone[rounds/2], beside[rounds/2]
	}
	figures := []any{"clients", held}
	for _, kind := range kinds {
		var a, b time.Duration
		for range 4 {
			if a, b = compare(kind.send); b <= 2*a {
				break
			}
		}
		if b > 2*a {
			t.Errorf("%s: %s alone and %s beside slow clients", kind.name, a, b)
		}
		figures = append(figures, kind.name+"-alone", a.Round(10*time.Microsecond), kind.name+"-beside", b.Round(10*time.Microsecond),
			kind.name+"-ratio", strconv.FormatFloat(float64(b)/float64(a), 'f', 2, 64))
	}
	if held < want || largest.goroutines-idle.goroutines < want {
		t.Errorf("%d slow clients stayed connected during the measurement, with %d goroutines, want %d",
			held, largest.goroutines-idle.goroutines, want)
	}
	result(t, "slow", begun, append(figures, "rss", fmt.Sprintf("%.0f->%.0fMiB", mib(idle.rss), mib(largest.rss)))...)
}

// slowReaders returns the number of clients that read slowly. Each costs the server a page in
// memory.
func slowReaders(each int) int { return each / 10 }

// crowd is a set of connections of slow clients.
type crowd struct {
	ended chan struct{}
	group sync.WaitGroup
	conns []net.Conn
	shut  atomic.Int64 // by the server
}

// newCrowd opens each connections of each kind.
func newCrowd(t *testing.T, s *server, each int) *crowd {
	t.Helper()
	host := strings.TrimPrefix(s.site, "http://")
	key := "Host: " + host + "\r\nAuthorization: Bearer " + managementKey + "\r\n"
	inference := "Host: " + host + "\r\nAuthorization: Bearer " + inferenceKey + "\r\n"
	kinds := []struct {
		begins string
		reads  bool
	}{
		{"GET /v1/presets/p HTTP/1.1\r\n" + key + "X-Slow: ", false},
		{"POST /v1/presets/slow/responses HTTP/1.1\r\n" + key + "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{", false},
		{"POST /v1/chat/completions HTTP/1.1\r\n" + inference + "Transfer-Encoding: chunked\r\n\r\nfffff\r\n{", false},
		{"GET /v1/presets/large/versions?limit=100 HTTP/1.1\r\n" + key + "\r\n", true},
	}
	c := &crowd{ended: make(chan struct{})}
	dialer := net.Dialer{Control: smallBuffer}
	var begun sync.WaitGroup
	for _, kind := range kinds {
		count := each
		if kind.reads {
			count = slowReaders(each)
		}
		for range count {
			conn, err := dialer.Dial("tcp", host)
			if err != nil {
				c.leave()
				t.Fatal(err)
			}
			c.conns = append(c.conns, conn)
			if _, err := io.WriteString(conn, kind.begins); err != nil {
				c.leave()
				t.Fatal(err)
			}
			begun.Add(1)
			c.group.Go(func() {
				if kind.reads {
					// After the first byte the server has made the answer.
					_, _ = conn.Read(make([]byte, 1))
				}
				begun.Done()
				c.runSlowClient(conn, kind.reads)
			})
		}
	}
	begun.Wait()
	return c
}

// runSlowClient is one slow client: a byte per second.
func (c *crowd) runSlowClient(conn net.Conn, reads bool) {
	one := []byte(" ")
	for {
		select {
		case <-c.ended:
			return
		case <-time.After(time.Second):
		}
		var err error
		if reads {
			_, err = conn.Read(one)
		} else {
			_, err = conn.Write(one)
		}
		if err != nil {
			select {
			case <-c.ended:
			default:
				c.shut.Add(1)
			}
			return
		}
	}
}

// leave closes all connections. It returns how many the server had not closed.
func (c *crowd) leave() int {
	close(c.ended)
	for _, conn := range c.conns {
		// Reset the connection, so that unread answers are dropped.
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		conn.Close()
	}
	c.group.Wait()
	return len(c.conns) - int(c.shut.Load())
}
