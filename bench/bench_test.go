package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/bench/result"
)

func TestMain(m *testing.M) {
	if serve := childRole(); serve != nil {
		if err := serve(); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// TestCompare runs the comparison for a very short time. It checks that all programs start
// and answer correctly, and that each row has a value. It does not check speed.
func TestCompare(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts servers")
	}
	t.Setenv("TMPDIR", t.TempDir())
	file := filepath.Join(t.TempDir(), "results.json")
	var out bytes.Buffer
	err := compare(t.Context(), options{
		rounds: 1, lasting: 50 * time.Millisecond, clients: 4, stored: 100,
		sizes: []int{100, 1000}, sweep: []int{1, 2}, sweepRounds: 1, usedDays: 2,
		only: groupNames, skipGateways: true, out: file,
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	run, err := result.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	want := 75 // without the rows of PocketBase and of other gateways
	if runtime.GOOS != "linux" {
		want -= 8 // the rows about memory
	}
	if len(run.Rows) != want {
		t.Errorf("got %d rows, want %d", len(run.Rows), want)
	}
	for _, row := range slices.Concat(run.Rows, run.Figures) {
		if len(row.Values) != 1 || math.IsNaN(row.Values[0]) || math.IsInf(row.Values[0], 0) {
			t.Errorf("%s: got %v, want one value", row.Name, row.Values)
		}
		if !strings.Contains(out.String(), row.Name) {
			t.Errorf("the tables lack %q", row.Name)
		}
	}
	for _, m := range run.Measurements {
		for _, s := range m.Samples {
			if s.PerSecond <= 0 || s.P50 <= 0 || s.P99 < s.P50 {
				t.Errorf("%v: got %+v", m.Load, s)
			}
		}
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		if strings.HasPrefix(entry.Name(), "presets-bench-") {
			t.Errorf("%s was left behind", entry.Name())
		}
	}

	folder := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "run", "./plot", file, folder).CombinedOutput(); err != nil {
		t.Fatalf("plot: %v\n%s", err, out)
	}
	for _, name := range []string{"connections.svg", "growth.svg"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if elements := countElements(t, text); elements < 20 || bytes.Contains(text, []byte("NaN")) {
			t.Errorf("%s: got %d elements:\n%s", name, elements, text)
		}
	}
}

func countElements(t *testing.T, text []byte) (n int) {
	t.Helper()
	for decoder := xml.NewDecoder(bytes.NewReader(text)); ; n++ {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return n
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompareCancelled cancels a run. It ends with an error and stops its servers.
func TestCompareCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := compare(ctx, options{rounds: 1, lasting: time.Second, clients: 1, stored: 1, sizes: []int{1000}, only: groupNames}, io.Discard)
	if err == nil {
		t.Error("got no error")
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	random := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(math.Exp(random.Float64() * 25)) // up to a minute
		all = append(all, d)
		h.record(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.99, 0.9999} {
		got, want := h.quantile(q), all[int(q*float64(len(all)))]
		if got < want || float64(got) > float64(want)*(1+1.0/subBuckets)+1 {
			t.Errorf("%v: got %d ns, want %d", q, got, want)
		}
	}
	h.record(math.MaxInt64)
	h.record(-1)
	if got := h.quantile(1); got < math.MaxInt64/2 {
		t.Errorf("the largest: got %v", got)
	}
	if got := new(histogram).quantile(0.5); got != 0 {
		t.Errorf("of none: got %v", got)
	}
}

// serve answers each request of a connection with the next of the answers.
func serve(t *testing.T, answers ...string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for _, text := range answers {
			if _, err := conn.Read(make([]byte, 4096)); err != nil {
				return
			}
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}()
	return listener.Addr().String()
}

func TestConnection(t *testing.T) {
	const right = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	long := strings.Repeat("x", 200_000)
	for _, c := range []struct {
		name, answer string
		size         int
		fails        bool
	}{
		{"right", right, 5, false},
		{"any size", right, 0, false},
		{"as Node.js writes it", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", 5, false},
		{"longer than the buffer", "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + long, 0, false},
		{"another size", right, 6, true},
		{"another status", "HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\nhello", 5, true},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n", 0, true},
		{"too much", right + "!", 5, true},
		{"too little", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRequest(serve(t, right, c.answer), "GET", "/", "key", "", 200, nil)
			s, err := r.connect(0)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			if err := s.once(); err != nil {
				t.Fatalf("the first answer: %v", err)
			}
			r.size = c.size
			if err := s.once(); (err != nil) != c.fails {
				t.Errorf("got %v, want an error: %v", err, c.fails)
			}
		})
	}
}

// TestFill checks that each client writes its own part into the request.
func TestFill(t *testing.T) {
	r := newRequest("", "POST", "/"+variable, "key", `{"a":1}`, 200, writeClientSlug)
	s := connection{request: r, client: 7, text: bytes.Clone(r.text)}
	s.fill(s.text[s.slot:][:len(variable)], s.client)
	if want := "POST /c00000000000000000000000000000000007 HTTP/1.1\r\n"; !strings.HasPrefix(string(s.text), want) {
		t.Errorf("got %q, want %q", s.text, want)
	}
}

func TestRequestBody(t *testing.T) {
	for _, settings := range []string{"", settings} {
		if got := len(requestBody(model, settings)); got != 2048 {
			t.Errorf("got %d bytes, want 2048", got)
		}
	}
}

func TestFormatNumber(t *testing.T) {
	for x, want := range map[float64]string{0: "0.00", -0.5: "-0.50", 9.994: "9.99", 12.34: "12.3", -99: "-99.0", 999.5: "1,000", 1234567: "1,234,567", -123456: "-123,456"} {
		if got := formatNumber(x); got != want {
			t.Errorf("%v: got %q, want %q", x, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{7}, 7}} {
		if got := result.Median(c.values); got != c.want {
			t.Errorf("%v: got %v, want %v", c.values, got, c.want)
		}
	}
}
