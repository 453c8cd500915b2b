//go:build faults

package caddymodule

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestSlowClients runs clients that send headers or bodies slowly. The other clients' 99th
// percentile stays below twice that without them.
func TestSlowClients(t *testing.T) {
	const slow, rounds, clients, requests = 300, 5, 4, 1500
	s := start(t, inferring())
	s.manage("POST", "/v1/presets/p/responses", `{"model":"m"}`).want(t, 200)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	p99 := func() time.Duration {
		var mu sync.Mutex
		var took []time.Duration
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				mine := make([]time.Duration, 0, requests)
				for range requests {
					r, _ := http.NewRequest("GET", s.url+"/v1/presets/p", nil)
					r.Header.Set("Authorization", "Bearer "+managementSecret)
					start := time.Now()
					response, err := client.Do(r)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
					mine = append(mine, time.Since(start))
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, mine...)
			})
		}
		wg.Wait()
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	heads := []string{
		"GET /v1/presets/p HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"POST /v1/presets/p/responses HTTP/1.1\r\nHost: x\r\n" + bearer(managementSecret) + "\r\nContent-Length: 100000\r\n\r\n{",
		"POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + bearer(inferenceSecret) + "\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n{",
	}
	attack := func() (end func()) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for _, head := range heads {
			for range slow {
				conn, err := net.Dial("tcp", s.address)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(conn, head)
				wg.Go(func() {
					defer conn.Close()
					for {
						select {
						case <-stop:
							return
						case <-time.After(500 * time.Millisecond):
							fmt.Fprint(conn, " ")
						}
					}
				})
			}
		}
		return func() { close(stop); wg.Wait() }
	}
	var alone, beside []time.Duration
	p99()
	for range rounds {
		alone = append(alone, p99())
		end := attack()
		time.Sleep(600 * time.Millisecond)
		beside = append(beside, p99())
		end()
	}
	slices.Sort(alone)
	slices.Sort(beside)
	t.Logf("99th percentile alone: %v, beside %d slow clients: %v", alone, slow*len(heads), beside)
	if a, b := alone[rounds/2], beside[rounds/2]; b > 2*a {
		t.Errorf("got %s beside slow clients and %s without, want less than twice as much", b, a)
	}
}
