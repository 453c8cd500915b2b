package dialects

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// Part is a part of a content that all dialects have: a text, an image or a file. Its texts are the insides of JSON strings. A nil one is missing.
type Part struct {
	kind partKind
	Text jsontext.Value
	// url is that of an image or a file. It may be a data URL (RFC 2397). data is set
	// instead if a file has other data, which only Responses and Chat can tell from a URL.
	url, data        jsontext.Value
	fileID, filename jsontext.Value
	detail           jsontext.Value // of an image
	breakpoint       bool           // a prompt cache ends here, as Responses says it
}

type partKind byte

const (
	textPart partKind = iota
	imagePart
	filePart
)

// ReadPart reads a part of a dialect. It is not ok for one that other dialects cannot have.
func ReadPart(dialect domain.Dialect, part jsontext.Value) (p Part, ok bool) {
	inside := func(object jsontext.Value, name string) jsontext.Value {
		text, _ := rawjson.Inside(rawjson.Get(object, name))
		return text
	}
	p.breakpoint = dialect == domain.Responses && rawjson.Get(part, "prompt_cache_breakpoint") != nil
	switch kind := TextOf(part, "type"); {
	case IsText(kind):
		p.Text = inside(part, "text")
		return p, p.Text != nil
	case dialect == domain.Responses && kind == "input_image":
		p.kind, p.url, p.fileID, p.detail = imagePart, inside(part, "image_url"), inside(part, "file_id"), inside(part, "detail")
	case dialect == domain.Chat && kind == "image_url":
		image := rawjson.Get(part, "image_url")
		p.kind, p.url, p.detail = imagePart, inside(image, "url"), inside(image, "detail")
	case dialect == domain.Responses && kind == "input_file":
		p.kind, p.data, p.url = filePart, inside(part, "file_data"), inside(part, "file_url")
		p.fileID, p.filename = inside(part, "file_id"), inside(part, "filename")
	case dialect == domain.Chat && kind == "file":
		file := rawjson.Get(part, "file")
		p.kind, p.fileID, p.filename = filePart, inside(file, "file_id"), inside(file, "filename")
		if p.data = inside(file, "file_data"); isRemote(p.data) { // some gateways take it there
			p.url, p.data = p.data, nil
		}
	case dialect == domain.Messages && (kind == "image" || kind == "document"):
		if p.kind = imagePart; kind == "document" {
			p.kind, p.filename = filePart, inside(part, "title")
		}
		source := rawjson.Get(part, "source")
		switch media := inside(source, "media_type"); TextOf(source, "type") {
		case "url":
			p.url = inside(source, "url")
		case "file":
			p.fileID = inside(source, "file_id")
		case "base64":
			p.url = slices.Concat(jsontext.Value("data:"), media, jsontext.Value(";base64,"), inside(source, "data"))
		}
	}
	if p.data != nil && isDataURL(p.data) && p.url == nil {
		p.url, p.data = p.data, nil
	}
	return p, p.url != nil || p.data != nil || p.fileID != nil
}

func isDataURL(url []byte) bool { return len(url) > 5 && bytes.EqualFold(url[:5], []byte("data:")) }

// isRemote reports whether a text is the URL of a server.
func isRemote(url []byte) bool {
	return bytes.HasPrefix(url, []byte("https://")) || bytes.HasPrefix(url, []byte("http://"))
}

// Write returns the part as a dialect writes it, without its last brace. Equal parts have
// equal bytes. It is not ok if the dialect has no such part.
func (p *Part) Write(dialect domain.Dialect, byAssistant bool) (pieces []jsontext.Value, ok bool) {
	add := func(before string, text jsontext.Value, after string) {
		pieces = append(pieces, jsontext.Value(before), text, jsontext.Value(after))
	}
	switch {
	case dialect == domain.Messages && p.kind != textPart:
		return p.writeBlock()
	case p.kind == textPart && dialect != domain.Responses:
		add(`{"type":"text","text":"`, p.Text, `"`)
	case p.kind == textPart && byAssistant:
		add(`{"type":"output_text","text":"`, p.Text, `"`)
	case p.kind == textPart:
		add(`{"type":"input_text","text":"`, p.Text, `"`)
	case p.kind == imagePart && dialect == domain.Chat:
		if p.url == nil {
			return nil, false
		}
		add(`{"type":"image_url","image_url":{"url":"`, p.url, `"`)
		if detail := p.detail; detail != nil {
			if string(detail) == "original" {
				detail = jsontext.Value("high") // the most that Chat has
			}
			add(`,"detail":"`, detail, `"`)
		}
		pieces = append(pieces, jsontext.Value(`}`))
	case p.kind == imagePart:
		detail := p.detail
		if detail == nil {
			detail = jsontext.Value("auto")
		}
		add(`{"type":"input_image","detail":"`, detail, `"`)
		if p.url != nil {
			add(`,"image_url":"`, p.url, `"`)
		}
		if p.fileID != nil {
			add(`,"file_id":"`, p.fileID, `"`)
		}
	default:
		pieces = p.fileMembers(dialect)
	}
	if p.breakpoint && dialect == domain.Responses {
		pieces = append(pieces, jsontext.Value(`,"prompt_cache_breakpoint":{"mode":"explicit"}`))
	}
	return pieces, true
}

// fileMembers returns a file as Responses or Chat writes it, without its last brace.
func (p *Part) fileMembers(dialect domain.Dialect) []jsontext.Value {
	inChat := dialect == domain.Chat
	pieces := []jsontext.Value{jsontext.Value(`{"type":"input_file",`)}
	if inChat {
		pieces[0] = jsontext.Value(`{"type":"file","file":{`)
	}
	add := func(name string, text jsontext.Value) {
		if len(pieces) > 1 {
			pieces = append(pieces, jsontext.Value{','})
		}
		pieces = append(pieces, jsontext.Value(`"`+name+`":"`), text, jsontext.Value{'"'})
	}
	if p.filename != nil {
		add("filename", p.filename)
	}
	switch {
	case p.url != nil && !inChat && !isDataURL(p.url):
		add("file_url", p.url)
	case p.url != nil:
		add("file_data", p.url)
	}
	if p.data != nil && (p.url == nil || !inChat) {
		add("file_data", p.data)
	}
	if p.fileID != nil {
		add("file_id", p.fileID)
	}
	if inChat {
		pieces = append(pieces, jsontext.Value{'}'})
	}
	return pieces
}

// writeBlock returns an image or a file as Messages writes it, without its last brace.
func (p *Part) writeBlock() (pieces []jsontext.Value, ok bool) {
	add := func(before string, text jsontext.Value, after string) {
		pieces = append(pieces, jsontext.Value(before), text, jsontext.Value(after))
	}
	head := jsontext.Value(`{"type":"image"`)
	if p.kind == filePart {
		head = jsontext.Value(`{"type":"document"`)
	}
	if pieces = append(pieces, head); p.kind == filePart && p.filename != nil {
		add(`,"title":"`, p.filename, `"`)
	}
	switch {
	case p.url != nil && isDataURL(p.url):
		media, data, found := bytes.Cut(p.url[len("data:"):], []byte(";base64,"))
		media, _, _ = bytes.Cut(media, []byte(";"))
		if !found || string(media) == "text/plain" { // which is a text there, and not base64
			return nil, false
		}
		add(`,"source":{"type":"base64","media_type":"`, media, `",`)
		add(`"data":"`, data, `"}`)
	case p.url != nil:
		add(`,"source":{"type":"url","url":"`, p.url, `"}`)
	case p.fileID != nil:
		add(`,"source":{"type":"file","file_id":"`, p.fileID, `"}`)
	default:
		return nil, false
	}
	return pieces, true
}

// IsText reports whether parts of a type have text, in any dialect.
func IsText(kind string) bool {
	return kind == "text" || kind == "input_text" || kind == "output_text"
}
