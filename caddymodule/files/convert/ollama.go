package convert

import (
	"cmp"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// readOllama reads Modelfiles: a file of any name, or those of a folder that have modelfile in their names.
func readOllama(c *conversion) ([]*prompt, error) {
	if c.isLive() {
		return nil, errors.New("give a file: ollama show --modelfile <model> prints it")
	}
	documents, err := c.documents("modelfile")
	if err != nil {
		return nil, err
	}
	var found prompts
	for _, d := range documents {
		at := c.file(d.name)
		if !utf8.Valid(d.text) {
			c.refuse(at, "is not UTF-8")
			continue
		}
		p := found.of(c.modelfileName(d.name))
		p.oneUnnumbered = true
		p.change(at, "a Modelfile does not tell the model's name: the slug comes from the name of the file or its folder")
		v := &version{dialect: domain.Chat, place: at}
		p.versions = append(p.versions, v)
		v.readModelfile(at, string(d.text))
	}
	return found.all, nil
}

var modelfileWord = regexp.MustCompile(`(?i)[._-]*modelfile[._-]*`)

// modelfileName returns support for support.Modelfile and Modelfile.support, and the name of the folder
// for Modelfile.
func (c *conversion) modelfileName(file string) string {
	folder := c.input
	if filepath.Base(folder) == file {
		folder = filepath.Dir(folder)
	}
	if folder, _ = filepath.Abs(folder); file == "" {
		folder = ""
	}
	return cmp.Or(modelfileWord.ReplaceAllString(file, ""), strings.Trim(filepath.Base(folder), "./\\"), noSlug)
}

// ollamaParameters are the names of a chat request for those of PARAMETER. Others are of the process that
// runs the model.
var ollamaParameters = map[string]string{
	"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "num_predict": "max_tokens", "seed": "seed",
	"stop": "stop", "repeat_penalty": "repetition_penalty", "frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty",
}

// readModelfile reads the instructions of a Modelfile. The last one of a kind counts, as at Ollama.
func (v *version) readModelfile(at node, text string) {
	var system, model node
	var stops []jsontext.Value
	settings := make(map[string]node)
	for _, i := range v.instructions(at, text) {
		place := at.at(strings.ToUpper(i.name))
		if !at.take() {
			return
		}
		switch i.name {
		case "from":
			isFile := strings.HasPrefix(i.value, ".") || strings.HasPrefix(i.value, "/") || strings.HasPrefix(i.value, "~") || strings.Contains(i.value, `\`) ||
				slices.Contains([]string{".gguf", ".bin", ".safetensors"}, strings.ToLower(filepath.Ext(i.value)))
			if isFile {
				v.leave(place, "is a file of weights: write the model's name at the gateway into the preset")
			} else {
				model = place.scalar(i.value)
			}
		case "system":
			system = message(place, "system", i.value)
		case "message":
			v.messages = append(v.messages, message(place, i.word, i.value))
		case "parameter":
			switch name, place := ollamaParameters[i.word], place.at(i.word); {
			case name == "":
				v.leave(place, "has no counterpart: it is for the process that runs the model")
			case name == "max_tokens" && strings.HasPrefix(i.value, "-"):
				v.leave(place, "means no limit, which a request has without it")
			case name == "stop":
				stops = append(stops, rawjson.Quote(i.value))
				place.value = rawjson.ArrayOf(stops...)
				settings[name] = place
			default:
				settings[name] = place.scalar(i.value)
			}
		case "template", "adapter", "renderer", "parser", "requires", "draft", "license":
			v.leave(place, "has no counterpart: it belongs to the model, which the gateway has")
		default:
			v.refuse(at, "has a line that is no instruction of a Modelfile")
			return
		}
	}
	if system.exists() && system.textOf("content") != "" {
		v.messages = slices.Insert(v.messages, 0, system)
	}
	settings["model"] = model
	for _, name := range []string{"model", "temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "stop", "repetition_penalty", "frequency_penalty", "presence_penalty"} {
		v.set(name, settings[name])
	}
}

// instruction is one of a Modelfile. word is the name of a parameter, or the role of a message.
type instruction struct{ name, word, value string }

// instructions returns those of a text. A value ends with its line, or where its quotes end.
func (v *version) instructions(at node, text string) (all []instruction) {
	lines := strings.Split(strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n"), "\n")
	word := func(text string) (first, rest string) {
		first, rest = text, ""
		if end := strings.IndexAny(text, " \t"); end >= 0 {
			first, rest = text[:end], strings.TrimLeft(text[end:], " \t")
		}
		return first, rest
	}
	for n := 0; n < len(lines); n++ {
		line := strings.TrimSpace(lines[n])
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var i instruction
		i.name, i.value = word(line)
		if i.name = strings.ToLower(i.name); i.name == "parameter" || i.name == "message" {
			i.word, i.value = word(i.value)
		}
		if quote := quoteOf(i.value); quote != "" {
			i.value = strings.TrimPrefix(i.value, quote)
			begin := n
			for last := i.value; !strings.HasSuffix(strings.TrimRight(last, " \t"), quote); last = lines[n] {
				if n++; n == len(lines) {
					v.refuse(at.at(strings.ToUpper(i.name)), "has a quote without an end")
					return all
				}
			}
			whole := strings.Join(append([]string{i.value}, lines[begin+1:n+1]...), "\n")
			i.value = strings.TrimSuffix(strings.TrimRight(whole, " \t"), quote)
		}
		all = append(all, i)
	}
	return all
}

// quoteOf returns the quotes that begin a value.
func quoteOf(value string) string {
	for _, quote := range []string{`"""`, `"`} {
		if strings.HasPrefix(value, quote) {
			return quote
		}
	}
	return ""
}

// scalar returns a place with a number, or else with a text.
func (n node) scalar(text string) node {
	if n.value = jsontext.Value(text); !n.value.IsValid() || n.value.Kind() != '0' {
		n.value = rawjson.Quote(text)
	}
	return n
}
