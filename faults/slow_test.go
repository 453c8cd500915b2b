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
)

// Clients that send their headers or bodies a byte at a time, or read answers so,
// cost others next to nothing: the slowest hundredth of theirs takes at most twice
// as long. It is measured in turn without and with them, and the middle one of the
// rounds counts, since the machine may have other work at times.
func TestSlowClients(t *testing.T) {
	begun := time.Now()
	rounds, each := choose(7, 21), choose(100, 700)
	s := newServer(t, options{presets: "inference", gateway: "reverse_proxy " + newGateway(t)})
	s.mustStart()
	// A page of large versions, so that who reads it slowly keeps the server waiting:
	// it fits into no buffer on the way.
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

	alone, beside := make([][]time.Duration, len(kinds)), make([][]time.Duration, len(kinds))
	for _, kind := range kinds {
		measure(kind.send)
	}
	idle := s.footprint()
	held, largest := 0, footprint{}
	for range rounds {
		for i, kind := range kinds {
			alone[i] = append(alone[i], measure(kind.send))
		}
		crowd := newCrowd(t, s, each)
		for i, kind := range kinds {
			beside[i] = append(beside[i], measure(kind.send))
		}
		if f := s.footprint(); f.rss > largest.rss {
			largest = f
		}
		// Those that the server no longer waits for make nobody slower.
		if open := crowd.leave(); held == 0 || open < held {
			held = open
		}
	}
	if want := 3*each + readers(each); held < want || largest.goroutines-idle.goroutines < want {
		t.Errorf("%d slow clients were held for as long as was measured, by %d goroutines, want %d",
			held, largest.goroutines-idle.goroutines, want)
	}
	figures := []any{"clients", held}
	for i, kind := range kinds {
		slices.Sort(alone[i])
		slices.Sort(beside[i])
		t.Logf("%s: 99th percentiles alone %v, beside %v", kind.name, alone[i], beside[i])
		a, b := alone[i][rounds/2], beside[i][rounds/2]
		ratio := float64(b) / float64(a)
		if ratio > 2 {
			t.Errorf("%s: %s alone and %s beside slow clients", kind.name, a, b)
		}
		figures = append(figures, kind.name+"-alone", a.Round(10*time.Microsecond), kind.name+"-beside", b.Round(10*time.Microsecond), kind.name+"-ratio", strconv.FormatFloat(ratio, 'f', 2, 64))
	}
	result(t, "slow", begun, append(figures, "rss", fmt.Sprintf("%.0f->%.0fMiB", mib(idle.rss), mib(largest.rss)))...)
}

// readers is how many of a crowd read slowly. Each costs the server a page in
// memory: many of them are another matter than slow ones.
func readers(each int) int { return each / 10 }

// crowd is connections of slow clients.
type crowd struct {
	ended chan struct{}
	group sync.WaitGroup
	conns []net.Conn
	shut  atomic.Int64 // by the server
}

// newCrowd opens as many connections of each kind.
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
	for _, kind := range kinds {
		count := each
		if kind.reads {
			count = readers(each)
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
			if kind.reads {
				// What it costs to make the answer is over once it has begun.
				if _, err := conn.Read(make([]byte, 1)); err != nil {
					c.leave()
					t.Fatal(err)
				}
			}
			c.group.Go(func() { c.dawdle(conn, kind.reads) })
		}
	}
	time.Sleep(200 * time.Millisecond) // until all are under way
	return c
}

// dawdle is one slow client: a byte per second.
func (c *crowd) dawdle(conn net.Conn, reads bool) {
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

// leave closes all connections and returns how many the server had not.
func (c *crowd) leave() int {
	close(c.ended)
	for _, conn := range c.conns {
		// Not with all the answers unread.
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		conn.Close()
	}
	c.group.Wait()
	return len(c.conns) - int(c.shut.Load())
}
