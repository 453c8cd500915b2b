package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/bench/result"
)

func TestChatBody(t *testing.T) {
	for _, l := range chatLoads {
		body := chatBody(chatModel, l.size, l.stream)
		if len(body) != l.size {
			t.Errorf("%s: got %d bytes, want %d", l.name, len(body), l.size)
		}
		if got := asksForEvents([]byte(body)); got != l.stream {
			t.Errorf("%s: asks for events: %t, want %t", l.name, got, l.stream)
		}
		for text, want := range map[string]chatSent{
			body:             {Model: chatModel, Stream: l.stream},
			withStored(body): {Model: chatModel, Stream: l.stream, Temperature: 0.7, TopP: 0.9, MaxTokens: 512},
		} {
			var got chatSent
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%s: %v in %s", l.name, err, text)
			}
			if last := got.Messages[len(got.Messages)-1].Role; last != "user" {
				t.Errorf("%s: the last message is of %s", l.name, last)
			}
			if stored := want.Temperature > 0; (got.Messages[0].Content == prompt) != stored || (len(got.Tools) == 1) != stored {
				t.Errorf("%s: got %s, stored configuration: %t", l.name, text, stored)
			}
			got.Messages, got.Tools = nil, nil
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %+v, want %+v", l.name, got, want)
			}
		}
	}
	if !asksForEvents([]byte("{\n  \"stream\": true\n}")) {
		t.Error("an indented request for events is not seen")
	}
}

// streamText returns the stream of the upstream, with one text replaced.
func streamText(from, to string) []byte {
	var text bytes.Buffer
	for _, event := range chatEvents() {
		_, event, _ = bytes.Cut(event, []byte("\r\n"))
		text.Write(bytes.TrimSuffix(event, []byte("\r\n")))
	}
	return bytes.Replace(text.Bytes(), []byte(from), []byte(to), 1)
}

// TestChatChecks tries right and wrong answers and requests.
func TestChatChecks(t *testing.T) {
	sent := withStored(chatBody(chatModel, 2<<10, false))
	answer := func(from, to string) error {
		return checkChatAnswer([]byte(strings.Replace(chatAnswer, from, to, 1)))
	}
	events := func(from, to string) error { return checkChatEvents(streamText(from, to)) }
	received := func(from, to string) error {
		return checkChatSent([]byte(strings.Replace(sent, from, to, 1)), sent)
	}
	for _, c := range []struct {
		name     string
		check    func(from, to string) error
		from, to string
		fails    bool
	}{
		{"answer", answer, "", "", false},
		{"answer with a field more", answer, `{"id"`, `{"extra":1,"id"`, false},
		{"another text", answer, "fox", "dog", true},
		{"no tokens", answer, "621", "0", true},
		{"cut off", answer, `"stop"`, `"length"`, true},
		{"no JSON", answer, "{", "", true},
		{"stream", events, "", "", false},
		{"stream without a word", events, " word7\"", "\"", true},
		{"stream without an end", events, "data: [DONE]", "", true},
		{"stream without tokens", events, "621", "0", true},
		{"stream with an error", events, `data: {"id":"chatcmpl-1"`, `data: {"error":"no"`, true},
		{"request", received, "", "", false},
		{"request with another order", received, `"temperature":0.7,"top_p":0.9`, `"top_p":0.9,"temperature":0.7`, false},
		{"request with a field more", received, "{", `{"stream_options":{"include_usage":true},`, false},
		{"request for another model", received, chatModel, "other", true},
		{"request without a setting", received, `"temperature":0.7,`, "", true},
		{"request without the prompt", received, systemMessage() + ",", "", true},
		{"request with another tool", received, "look_up", "look_down", true},
		{"request with another message", received, "quick", "slow", true},
	} {
		if err := c.check(c.from, c.to); (err != nil) != c.fails {
			t.Errorf("%s: got %v, want an error: %t", c.name, err, c.fails)
		}
	}
}

// startTestUpstream starts the upstream in this process.
func startTestUpstream(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go answerClients(listener)
	return listener.Addr().String()
}

// TestUpstreamAnswersChats asks the upstream without a gateway.
func TestUpstreamAnswersChats(t *testing.T) {
	upstream := startTestUpstream(t)
	for _, l := range chatLoads {
		r := chatRequest(upstream, "nobody", chatModel, l)
		body := chatBody(chatModel, l.size, l.stream)
		if err := checkChat(upstream, r, l.stream, body); err != nil {
			t.Errorf("%s: %v", l.name, err)
		}
		if err := checkChat(upstream, r, l.stream, withStored(body)); err == nil {
			t.Errorf("%s: no error although the stored configuration was not applied", l.name)
		}
		if err := checkChat(upstream, r, !l.stream, body); err == nil {
			t.Errorf("%s: no error for the other kind of answer", l.name)
		}
		var firsts firstEventTimes
		open := r.connect
		if l.stream {
			open = firsts.of(r)
		}
		if sample, done, err := drive(t.Context(), 2, 0, 10*time.Millisecond, open); err != nil || sample.PerSecond <= 0 || done == 0 {
			t.Errorf("%s: got %+v, %d, %v", l.name, sample, done, err)
		}
		if l.stream && (firsts.median() <= 0 || len(firsts.clients) < 2) {
			t.Errorf("%s: the median time to the first event is %v", l.name, firsts.median())
		}
	}
}

func TestStreamConnection(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	event := string(chunk("data: 1\n\n"))
	for _, c := range []struct {
		name, answer string
		fails        bool
	}{
		{"events", head + event + event + "0\r\n\r\n", false},
		{"more than the buffer", head + strings.Repeat(event, 20_000) + "0\r\n\r\n", false},
		{"no event", head + "0\r\n\r\n", true},
		{"another status", "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n" + event + "0\r\n\r\n", true},
		{"no end", head + event, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := newRequest(serve(t, c.answer), "GET", "/", "key", "", 200, nil).connectStream(0)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			if err := s.once(); (err != nil) != c.fails {
				t.Errorf("got %v, want an error: %t", err, c.fails)
			}
		})
	}
}

// TestPortkeyRequest checks that the header has the settings, and the body the system message.
func TestPortkeyRequest(t *testing.T) {
	b := &bench{upstream: "127.0.0.1:1"}
	r := b.portkeyRequest("127.0.0.1:2", chatLoads[0])
	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.text)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Override map[string]any `json:"override_params"`
	}
	if err := json.Unmarshal([]byte(request.Header.Get("X-Portkey-Config")), &config); err != nil {
		t.Fatal(err)
	}
	if config.Override["model"] != chatModel || config.Override["temperature"] != 0.7 || request.Host != "127.0.0.1:2" {
		t.Errorf("got host %s and config %v", request.Host, config)
	}
	if err := checkChatSent(body, withSystemMessage(chatBody(chatModel, 2<<10, false))); err != nil {
		t.Error(err)
	}
}

// TestSkippedGateway looks for Portkey's gateway where there is no Node.js.
func TestSkippedGateway(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	b := &bench{ctx: t.Context()}
	_, err := b.preparePortkey()
	if err == nil || !strings.Contains(err.Error(), "apt-get install") {
		t.Fatalf("got %v, want the command that installs it", err)
	}
	b.skip(portkeyGateway, err)
	if got := strings.Join(b.peerVersions, ", "); !strings.Contains(got, "without "+portkeyGateway) {
		t.Errorf("the versions are %q", got)
	}
}

// TestSetHeader checks that a part of the request can still differ.
func TestSetHeader(t *testing.T) {
	r := newRequest("", "POST", "/"+variable, "key", `{"a":1}`, 200, writeClientSlug)
	before := string(r.text)
	r.setHeader("X-Name", "value")
	if got := strings.Replace(string(r.text), "X-Name: value\r\n", "", 1); got != before || len(r.text) == len(got) {
		t.Errorf("got %q, want one header more than in %q", r.text, before)
	}
	if !bytes.HasPrefix(r.text[r.slot:], []byte(variable)) {
		t.Errorf("the part that differs is at %d of %q", r.slot, r.text)
	}
}

// TestJudgeGateways judges invented figures.
func TestJudgeGateways(t *testing.T) {
	judged := func(left string, oursTakes time.Duration) []result.Row {
		b := new(bench)
		for _, l := range chatLoads {
			for _, gateway := range []string{stockGateway, bareGateway, oursGateway, portkeyGateway, bifrostGateway, liteLLMGateway} {
				took := 10 * time.Millisecond
				switch gateway {
				case oursGateway:
					took = oursTakes
				case left:
					continue
				}
				work := l.work(gateway)
				b.result.Add(result.Load{Group: gateways, Work: work, Connections: chatClients}, result.Sample{PerSecond: 1 / took.Seconds(), P50: took, P99: took, CPU: took})
				b.record(firstEventFigure(work), "µs", float64(took.Microseconds()))
				b.record(peakUnder(work), "MiB", took.Seconds())
			}
		}
		b.record(uploadFigure, "MiB", oursTakes.Seconds()*16000) // 144 or 224
		b.judgeGateways(judge{b})
		return b.result.Rows
	}
	for _, c := range []struct {
		name  string
		left  string
		takes time.Duration
		rows  int
		met   bool
	}{
		{"faster", "", 9 * time.Millisecond, 76, true},
		{"slower", "", 14 * time.Millisecond, 76, false},
		{"without Bifrost", bifrostGateway, 9 * time.Millisecond, 55, true},
		{"without Portkey", portkeyGateway, 14 * time.Millisecond, 55, false},
	} {
		rows := judged(c.left, c.takes)
		if len(rows) != c.rows {
			t.Errorf("%s: got %d rows, want %d", c.name, len(rows), c.rows)
		}
		if i := slices.IndexFunc(rows, func(r result.Row) bool { return r.Met != c.met || r.Goal == "" }); i >= 0 {
			t.Errorf("%s: got %+v", c.name, rows[i])
		}
	}
}
