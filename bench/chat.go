package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// chatPath is the path of chat requests, at each gateway and at the upstream.
const chatPath = "/v1/chat/completions"

// The stored configuration that gateways apply to chat requests, besides prompt.
const (
	chatModel    = "gpt-4.1-mini"
	chatSettings = `"temperature":0.7,"top_p":0.9,"max_completion_tokens":512,` +
		`"tools":[{"type":"function","function":{"name":"look_up","description":"Looks up an order by its number.","parameters":` +
		`{"type":"object","properties":{"number":{"type":"string"}},"required":["number"]}}}]`
)

// systemMessage returns prompt as a message.
func systemMessage() string { return `{"role":"system","content":"` + prompt + `"}` }

// storedChat returns the stored configuration as the body of a request.
func storedChat() string {
	return `{"model":"` + chatModel + `",` + chatSettings + `,"messages":[` + systemMessage() + `]}`
}

// chatMessageSize is the size of each message but the last, in bytes.
const chatMessageSize = 1 << 10

// chatBody returns a chat request of a size in bytes: a conversation that ends with the user.
func chatBody(model string, size int, stream bool) string {
	var body strings.Builder
	fmt.Fprintf(&body, `{"model":"%s","stream":%t,"messages":[`, model, stream)
	const separator, tail = ",", "]}"
	for i := range (size/chatMessageSize - 1) / 2 * 2 {
		body.WriteString(chatMessage([]string{"user", "assistant"}[i%2], chatMessageSize-len(separator), i+1) + separator)
	}
	return body.String() + chatMessage("user", size-body.Len()-len(tail), 0) + tail
}

// chatMessage returns a message of a size in bytes, whose text is like that of agents: words, code and quotes, with
// escapes at irregular places. Messages of one number and size are equal.
func chatMessage(role string, size, number int) string {
	const tail = `"}`
	text := []byte(`{"role":"` + role + `","content":"`)
	random := rand.New(rand.NewPCG(1, uint64(number)))
	for {
		piece := chatPieces[random.IntN(len(chatPieces))]
		if random.IntN(4) == 0 {
			piece = strconv.Itoa(random.IntN(1_000_000)) + " "
		}
		if len(text)+len(piece)+len(tail) > size {
			return string(append(text, bytes.Repeat([]byte("x"), size-len(tail)-len(text))...)) + tail
		}
		text = append(text, piece...)
	}
}

var chatPieces = []string{
	"The quick brown fox jumps over the lazy dog. ", "the ", "of a ", "request ", "which then ", "answers, ", "because ", "naïve ", "größer ", "模型 ",
	`\n`, `\n\n\t`, `\"quoted\" `, `if err != nil {\n\t\treturn fmt.Errorf(\"reading %q: %w\", name, err)\n\t}\n`, `{\"path\": \"src/main.go\", \"line\": `,
	`C:\\Users\\me `, `\u00e9t\u00e9 `, "and so on; ", "(see above) ", "function ", "configuration ",
}

// withSystemMessage adds the system message to a chat request.
func withSystemMessage(body string) string {
	return strings.Replace(body, `"messages":[`, `"messages":[`+systemMessage()+",", 1)
}

// withSettings returns a chat request with the stored model and settings.
func withSettings(body string) string {
	_, rest, _ := strings.Cut(body, `"stream":`)
	return `{"model":"` + chatModel + `",` + chatSettings + `,"stream":` + rest
}

// withStored returns a chat request with the whole stored configuration.
func withStored(body string) string { return withSettings(withSystemMessage(body)) }

const (
	chatID    = "chatcmpl-1"
	chatUsage = `"usage":{"prompt_tokens":421,"completion_tokens":200,"total_tokens":621}`
)

// chatText is the text of an answer without events.
var chatText = strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20)

// chatAnswer is the upstream's answer to a chat request.
var chatAnswer = `{"id":"` + chatID + `","object":"chat.completion","created":1767225600,"model":"` + chatModel + `","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"` + chatText + `","refusal":null},"logprobs":null,"finish_reason":"stop"}],` + chatUsage + `}`

// chatEvents returns the upstream's answer to a chat request for a stream. Its end is not
// an event.
var chatEvents = sync.OnceValue(func() (events [][]byte) {
	const head = `{"id":"` + chatID + `","object":"chat.completion.chunk","created":1767225600,"model":"` + chatModel + `","choices":[`
	add := func(rest string) { events = append(events, chunk("data: "+head+rest+"}\n\n")) }
	add(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]`)
	for i := range streamEvents - 3 {
		add(fmt.Sprintf(`{"index":0,"delta":{"content":" word%d"},"finish_reason":null}]`, i))
	}
	add(`{"index":0,"delta":{},"finish_reason":"stop"}]`)
	add(`],` + chatUsage)
	return append(events, chunk("data: [DONE]\n\n"))
})

// asksForEvents reports whether a chat request asks for a stream. Bifrost's core indents its
// requests.
func asksForEvents(body []byte) bool {
	_, value, _ := bytes.Cut(body, []byte(`"stream":`))
	return bytes.HasPrefix(bytes.TrimLeft(value, " "), []byte("true"))
}

// chatReply is what a client reads of an answer or of an event.
type chatReply struct {
	ID      string
	Choices []struct {
		Message, Delta struct{ Content string }
		FinishReason   string `json:"finish_reason"`
	}
	Usage struct {
		TotalTokens int `json:"total_tokens"`
	}
}

// checkChatAnswer checks the answer that a client got. It need not have the upstream's bytes.
func checkChatAnswer(body []byte) error {
	var reply chatReply
	if err := json.Unmarshal(body, &reply); err != nil {
		return err
	}
	if reply.ID != chatID || len(reply.Choices) != 1 || reply.Choices[0].Message.Content != chatText ||
		reply.Choices[0].FinishReason != "stop" || reply.Usage.TotalTokens != 621 {
		return fmt.Errorf("got %.500s, want %.500s", body, chatAnswer)
	}
	return nil
}

// checkChatEvents checks the stream that a client got.
func checkChatEvents(body []byte) error {
	var text, want strings.Builder
	for i := range streamEvents - 3 {
		fmt.Fprintf(&want, " word%d", i)
	}
	events, total, finish, ended := 0, 0, "", false
	for line := range strings.Lines(string(body)) {
		data, found := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !found {
			continue
		}
		if ended = data == "[DONE]"; ended {
			continue
		}
		var reply chatReply
		if err := json.Unmarshal([]byte(data), &reply); err != nil || reply.ID != chatID {
			return fmt.Errorf("got event %.500s, %w", data, err)
		}
		events++
		total = max(total, reply.Usage.TotalTokens)
		for _, choice := range reply.Choices {
			text.WriteString(choice.Delta.Content)
			finish += choice.FinishReason
		}
	}
	if events < streamEvents-2 || text.String() != want.String() || finish != "stop" || total != 621 || !ended {
		return fmt.Errorf("got %d events, text %.100q, end %q, %d tokens, [DONE] at the end: %t:\n%.500s", events, text.String(), finish, total, ended, body)
	}
	return nil
}

// chatSent is the part of a chat request that must reach the upstream.
type chatSent struct {
	Model       string
	Stream      bool
	Temperature float64
	TopP        float64 `json:"top_p"`
	MaxTokens   int     `json:"max_completion_tokens"`
	Tools       []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        any
		}
	}
	Messages []struct{ Role, Content string }
}

// checkChatSent checks what the upstream received.
func checkChatSent(received []byte, want string) error {
	var got, wanted chatSent
	if err := errors.Join(json.Unmarshal(received, &got), json.Unmarshal([]byte(want), &wanted)); err != nil {
		return err
	}
	if !reflect.DeepEqual(got, wanted) {
		return fmt.Errorf("the upstream received %.1500s, want %.1500s", received, want)
	}
	return nil
}

// A request with keepNextChat asks the upstream to keep the body of the next chat request. The
// upstream answers one with keptChat with that body.
const (
	keepNextChat = "bench-keep-next"
	keptChat     = "bench-kept"
)

// chatKeeper keeps the body of a chat request, if one was asked for.
type chatKeeper struct {
	next atomic.Bool
	mu   sync.Mutex
	body []byte
}

var keeper chatKeeper // of the upstream

func (k *chatKeeper) keep(body []byte) {
	if k.next.Load() && k.next.CompareAndSwap(true, false) {
		k.mu.Lock()
		k.body = bytes.Clone(body)
		k.mu.Unlock()
	}
}

func (k *chatKeeper) take() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	body := k.body
	k.body = nil
	return body
}

// checkChat sends a chat request once. It checks its answer, and that the upstream receives
// what is wanted.
func checkChat(upstream string, r *request, stream bool, want string) error {
	fixed := func(path string) *request {
		return newRequest(upstream, http.MethodGet, path, "nobody", "", http.StatusOK, nil)
	}
	if _, _, err := fixed("/" + keepNextChat).ask(); err != nil {
		return err
	}
	_, answer, err := r.ask()
	if err != nil {
		return err
	}
	check := checkChatAnswer
	if stream {
		check = checkChatEvents
	}
	if err := check(answer); err != nil {
		return err
	}
	_, received, err := fixed("/" + keptChat).ask()
	if err != nil {
		return err
	}
	return checkChatSent(received, want)
}
