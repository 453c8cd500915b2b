package inference_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

var (
	openAIImages     = []string{"background", "moderation", "n", "output_format", "quality", "response_format", "size", "style"}
	openRouterImages = []string{"aspect_ratio", "background", "n", "output_format", "provider", "quality", "resolution", "seed", "size"}
)

// TestImages has the whole request that goes up on a route for images, with a preset and without.
func TestImages(t *testing.T) {
	r := newResolving(t)
	for i, tc := range []struct {
		name, config, prompt string
		from                 domain.Dialect // chat if empty
		takes                []string       // openRouterImages if nil
		imageModel, sort     string
		dropFields           []string
		body, want           string // want is empty for the body
		dropped, sources     string
		refused              string
	}{
		{
			name: "the model, and what the route takes", prompt: "Be brief.",
			config:  `{"model":"m","seed":7,"temperature":1,"modalities":["image"],"provider":{"only":["x"]},"image_config":{"aspect_ratio":"16:9","image_size":"2K","quality":"high","strength":0.5}}`,
			body:    `{"model":"@preset/p","prompt":"a \u0063at","quality":"low"}`,
			want:    `{"model":"m","prompt":"a \u0063at","quality":"low","seed":7,"provider":{"only":["x"]},"aspect_ratio":"16:9","resolution":"2K"}`,
			dropped: "temperature,modalities,image_config.strength,system_prompt",
			sources: "model preset,prompt request,quality request,seed preset,provider preset,aspect_ratio preset,resolution preset",
		},
		{
			name: "OpenAI's route", takes: openAIImages, from: responses, sort: "price",
			config: `{"model":"m","provider":{"only":["x"]},"image_config":{"aspect_ratio":"16:9","size":"1024x1024","response_format":"b64_json"}}`,
			body:   `{"preset":"p@1","prompt":"a cat","user":"u"}`,
			want:   `{"prompt":"a cat","user":"u","model":"m","size":"1024x1024","response_format":"b64_json"}`, dropped: "provider,aspect_ratio",
		},
		{
			name: "a version of messages", from: messages, config: `{"model":"m","max_tokens":9}`, sort: "price",
			body: `{"model":"x/y@preset/p","prompt":"a"}`, want: `{"model":"x/y","prompt":"a","provider":{"sort":"price"}}`, dropped: "max_tokens",
		},
		{
			name: "pixels replace the preset's ratio and tier", config: `{"model":"m","image_config":{"aspect_ratio":"1:1","resolution":"1K"}}`,
			body: `{"model":"@preset/p","size":"512x512"}`, want: `{"model":"m","size":"512x512"}`,
		},
		{
			name: "a tier replaces the preset's tier alone", config: `{"model":"m","image_config":{"aspect_ratio":"1:1","resolution":"1K"}}`,
			body: `{"model":"@preset/p","size":"2K"}`, want: `{"model":"m","size":"2K","aspect_ratio":"1:1"}`,
		},
		{
			name: "a ratio replaces the preset's pixels", config: `{"model":"m","image_config":{"size":"512x512"}}`,
			body: `{"model":"@preset/p","aspect_ratio":"1:1"}`, want: `{"model":"m","aspect_ratio":"1:1"}`,
		},
		{
			name: "fields that the gateway does not know", config: `{"model":"m","seed":1,"image_config":{"quality":"low","size":"1K"}}`, dropFields: []string{"seed", "quality", "image_config"},
			body: `{"model":"@preset/p","prompt":"a"}`, want: `{"model":"m","prompt":"a","size":"1K"}`, dropped: "seed,image_config.quality",
		},
		{name: "the first of the models", config: `{"models":["a","b"]}`, body: `{"model":"@preset/p"}`, want: `{"model":"a"}`, dropped: "models"},
		{
			name: "the workspace's model behind a preset", config: `{"seed":1}`, imageModel: "i",
			body: `{"preset":"p","prompt":"a"}`, want: `{"prompt":"a","seed":1,"model":"i"}`, sources: "prompt request,seed preset,model workspace",
		},
		{name: "no model of images behind a preset", config: `{"seed":1}`, body: `{"preset":"p","prompt":"a"}`, refused: "/model: required"},
		{name: "two presets", config: `{"model":"m"}`, body: `{"preset":"p","model":"@preset/q"}`, refused: "/"},
		{name: "without a preset", imageModel: "i", body: ` {"prompt": "a"} `, want: ` {"model":"i","prompt": "a"} `, sources: "model workspace,prompt request"},
		{name: "an empty request", imageModel: "i", body: `{ }`, want: `{"model":"i" }`},
		{name: "null", imageModel: "i", body: `{"prompt":"a", "model" : null}`, want: `{"prompt":"a", "model" : "i"}`, sources: "prompt request,model workspace"},
		{name: "an empty model", imageModel: "i", body: `{"model":"","prompt":"a"}`, want: `{"model":"i","prompt":"a"}`},
		{name: "a model", imageModel: "i", body: `{"model": "m"}`, sources: "model request"},
		{name: "models of the gateway", imageModel: "i", body: `{"models":["m"]}`},
		{name: "no default", body: `{"prompt":"a"}`},
		{name: "no JSON", imageModel: "i", body: `{"prompt":`},
		{name: "a list", imageModel: "i", body: `[]`},
		{name: "a field twice", imageModel: "i", body: `{"n":1,"n":2}`},
		{name: "a prompt is no preset", imageModel: "i", body: `{"prompt":{"id":"p"}}`, want: `{"model":"i","prompt":{"id":"p"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.from == "" {
				tc.from = chat
			}
			if tc.takes == nil {
				tc.takes = openRouterImages
			}
			if tc.want == "" {
				tc.want = tc.body
			}
			who := r.team(t, fmt.Sprint("images", i), "text", tc.sort)
			r.changeWorkspace(t, who.WorkspaceID, func(w *domain.Workspace) { w.DefaultImageModel = new(tc.imageModel) })
			if tc.config != "" {
				r.put(t, who.WorkspaceID, "p", version{tc.from, tc.config, tc.prompt})
			}
			request := inference.Request{Dialect: domain.Images, Takes: tc.takes, Body: []byte(tc.body)}
			got, err := r.resolver(t, inference.Config{DropFields: tc.dropFields, TellModel: true}).Resolve(t.Context(), who, request)
			if tc.refused != "" {
				wantKind(t, err, domain.Invalid, tc.refused)
				return
			}
			wantBody(t, got, err, tc.want)
			if got.Rewritten == (tc.want == tc.body) || strings.Contains(tc.want, `"model":"i"`) && got.Model != "i" {
				t.Errorf("got rewritten %t and the model %q", got.Rewritten, got.Model)
			}
			if dropped := strings.Join(got.Dropped, ","); dropped != tc.dropped {
				t.Errorf("got dropped %q, want %q", dropped, tc.dropped)
			}
			fields, err := got.Fields()
			var sources []string
			for _, f := range fields {
				sources = append(sources, f.Name+" "+string(f.From))
			}
			if err != nil || tc.sources != "" && strings.Join(sources, ",") != tc.sources {
				t.Errorf("got %q, %v, want %q", sources, err, tc.sources)
			}
		})
	}
}

// TestModalities checks that a request for images on a route of text gets the model of images, with and without a
// preset.
func TestModalities(t *testing.T) {
	r := newResolving(t)
	who := r.team(t, "team", "text", "")
	r.changeWorkspace(t, who.WorkspaceID, func(w *domain.Workspace) { w.DefaultImageModel = new("image") })
	texts := r.team(t, "texts", "text", "")
	for _, in := range []domain.Principal{who, texts} {
		r.put(t, in.WorkspaceID, "plain", version{chat, `{"seed":1}`, ""})
		r.put(t, in.WorkspaceID, "drawn", version{chat, `{"modalities":["image","text"]}`, ""})
		r.put(t, in.WorkspaceID, "fixed", version{chat, `{"model":"m","modalities":["image"]}`, ""})
	}
	const attribution = `"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1;"}]`
	for _, tc := range []struct {
		who    domain.Principal
		config inference.Config
		body   string
		want   string // the beginning or the end of what goes up
		in     []domain.Dialect
		takes  []string
		// measured requests of chats are asked for their usage, too.
		measured bool
	}{
		{who: who, body: `{"preset":"plain","modalities":["text","image"]}`, want: `"model":"image"}`},
		{who: who, body: `{"preset":"drawn"}`, want: `"model":"image"}`, in: []domain.Dialect{chat, responses}},
		{who: who, body: `{"preset":"drawn"}`, want: `{"model":"image"}`, in: []domain.Dialect{chat, responses}, takes: []string{"tools"}},
		{who: who, body: `{"preset":"drawn","modalities":["text"]}`, want: `"model":"text"}`, in: []domain.Dialect{chat, responses}},
		{who: who, body: `{"preset":"plain","modalities":["image"]}`, want: `{"seed":1,"model":"image"}`, config: inference.Config{DropFields: []string{"modalities"}}, in: []domain.Dialect{chat}},
		{who: who, body: `{"preset":"plain"}`, want: `"model":"text"}`},
		{who: who, body: `{"preset":"fixed"}`, want: `"m"`, in: []domain.Dialect{chat, responses}},
		{who: texts, body: `{"preset":"plain","modalities":["image"]}`, want: `"model":"text"}`},
		{who: who, body: `{"modalities":["image"]}`, want: `{"model":"image","modalities":["image"]}`},
		{who: who, body: `{"modalities":["image"],"model":"m"}`, want: `{"modalities":["image"],"model":"m"}`},
		{who: who, body: `{"modalities":["text"]}`, want: `{"modalities":["text"]}`},
		{who: who, body: `{"modalities":["image"]}`, want: `{"modalities":["image"]}`, takes: []string{"tools"}},
		{who: texts, body: `{"modalities":["image"]}`, want: `{"modalities":["image"]}`},
		{who: who, body: `{"modalities":["image"],"prompt":{"id":"theirs"}}`, want: `{"modalities":["image"],"prompt":{"id":"theirs"}}`, config: inference.Config{PassUnknownPrompts: true}},
		{
			who: who, body: `{"model":null,` + attribution + `,"modalities":["image"]}`, want: `{"model":"image","modalities":["image"]}`,
			config: inference.Config{DropAttribution: true}, in: []domain.Dialect{messages},
		},
		{
			who: who, body: `{` + attribution + `,"modalities":["image"], "model":""}`, want: `{"modalities":["image"], "model":"image"}`,
			config: inference.Config{DropAttribution: true}, in: []domain.Dialect{messages},
		},
		{
			who: who, body: `{` + attribution + `,"modalities":["image"]}`, want: `{"model":"image","modalities":["image"]}`,
			config: inference.Config{DropAttribution: true}, in: []domain.Dialect{messages},
		},
		{who: who, measured: true, body: `{"stream":true,"modalities":["image"]}`, want: `{"model":"image","stream_options":{"include_usage":true},"stream":true,"modalities":["image"]}`, in: []domain.Dialect{chat}},
		{who: who, measured: true, body: `{"model":null,"stream_options":{},"stream":true,"modalities":["image"]}`, want: `{"model":"image","stream_options":{"include_usage":true},"stream":true,"modalities":["image"]}`, in: []domain.Dialect{chat}},
		{who: who, measured: true, body: `{"stream":true,"stream_options":{"x":1},"modalities":["image"],"model":""}`, want: `{"stream":true,"stream_options":{"x":1,"include_usage":true},"modalities":["image"],"model":"image"}`, in: []domain.Dialect{chat}},
	} {
		if tc.in == nil {
			tc.in = allDialects
		}
		for _, dialect := range tc.in {
			got, err := r.resolver(t, tc.config).Resolve(t.Context(), tc.who, inference.Request{Dialect: dialect, Takes: tc.takes, Body: []byte(tc.body), Measured: tc.measured})
			if text := got.Body.String(); err != nil || !strings.HasPrefix(text, tc.want) && !strings.HasSuffix(text, tc.want) && (tc.want != `"m"` || !strings.Contains(text, `"model":"m"`)) {
				t.Errorf("%s %s: got %s, %v, want %s", dialect, tc.body, text, err, tc.want)
			}
		}
	}
}

// TestLimitsOfImages checks that policies, limits of keys and disabled tools hold on the routes for images.
func TestLimitsOfImages(t *testing.T) {
	r := newResolving(t)
	resolve := func(who domain.Principal, body string) (inference.Resolution, error) {
		request := inference.Request{Dialect: domain.Images, Takes: openRouterImages, Body: []byte(body)}
		return r.resolver(t, inference.Config{}).Resolve(t.Context(), who, request)
	}
	const config = `{"model":"m","seed":1,"response_format":{"type":"text"},"image_config":{"quality":"low","aspect_ratio":"1:1"}}`
	for _, tc := range []struct{ policy, body, want, enforced string }{
		{`"lock":["image_config"]`, `"quality":"high","size":"9x9","n":9`, `{"quality":"low","model":"m","seed":1,"aspect_ratio":"1:1"}`, "image_config"},
		{`"lock":["image_config"]`, `"quality":"low","prompt":"a","user":"u"`, `{"quality":"low","prompt":"a","user":"u","model":"m","seed":1,"aspect_ratio":"1:1"}`, ""},
		{`"lock":["image_config"],"allow_fields":["image_config"]`, `"image_config":{"quality":"high"}`, `{"model":"m","seed":1,"quality":"low","aspect_ratio":"1:1"}`, "image_config"},
		{`"drop":["image_config"]`, `"quality":"high","prompt":"a"`, `{"prompt":"a","model":"m","seed":1}`, ""},
		{`"drop":["user","n"]`, `"user":"u","n":2`, `{"model":"m","seed":1,"quality":"low","aspect_ratio":"1:1"}`, ""},
		{`"lock":["response_format"]`, `"response_format":"url","output_format":"png"`, `{"response_format":"url","output_format":"png","model":"m","seed":1,"quality":"low","aspect_ratio":"1:1"}`, ""},
		{`"lock":["model"]`, `"model":"x"`, `{"model":"m","seed":1,"quality":"low","aspect_ratio":"1:1"}`, "model"},
		{`"lock":["model"]`, `"models":["x"],"prompt_id":"x"`, `{"model":"m","seed":1,"quality":"low","aspect_ratio":"1:1"}`, "models,prompt_id"},
		{`"bounds":{"seed":{"max":2}}`, `"seed":3`, `{"seed":2,"model":"m","quality":"low","aspect_ratio":"1:1"}`, "seed"},
		{`"models":["a/*"]`, `"model":"b/x"`, `{"model":"m","seed":1,"quality":"low","aspect_ratio":"1:1"}`, "models"},
		{`"models":["a/*"]`, `"model":"a/x","svg":{"model":"b/x"}`, `{"model":"a/x","seed":1,"quality":"low","aspect_ratio":"1:1"}`, "models"},
		{`"models":["a/*"]`, `"svg":{"model":"a/x"}`, `{"svg":{"model":"a/x"},"model":"m","seed":1,"quality":"low","aspect_ratio":"1:1"}`, ""},
		{`"lock":["system","tools","reasoning"]`, `"tools":[],"prompt":"a"`, `{"prompt":"a","model":"m","seed":1,"quality":"low","aspect_ratio":"1:1"}`, "tools"},
	} {
		for _, mode := range []string{"override", "refuse"} {
			r.ruled(t, "p", version{chat, config, ""}, `{`+tc.policy+`,"violation":"`+mode+`"}`)
			got, err := resolve(user, `{"preset":"p",`+tc.body+`}`)
			if mode == "refuse" && tc.enforced != "" {
				wantKind(t, err, domain.Forbidden, "Request breaks the policy of the preset")
				continue
			}
			wantBody(t, got, err, tc.want)
			slices.Sort(got.Enforced)
			if enforced := strings.Join(got.Enforced, ","); enforced != tc.enforced {
				t.Errorf("%s %s: got enforced %q, want %q", tc.policy, tc.body, enforced, tc.enforced)
			}
		}
	}

	r.put(t, r.home.ID, "free", version{chat, `{"seed":1}`, ""})
	r.changeWorkspace(t, r.home.ID, func(w *domain.Workspace) { w.DefaultImageModel = new("default") })
	limited := limitedBy(domain.Scope{Models: []string{"a/*"}})
	for _, body := range []string{
		`{"model":"a/x","prompt":"p","n":2,"size":"1K","stream":true,"trace":{"id":"x"},"input_references":[{"type":"image_url"}],"moderation":"low","background":"auto","response_format":"url"}`,
		`{"model":"@preset/free","prompt":"p"}`, `{"prompt":"p"}`, `{"model":"a/x","svg":{"model":"a/y","reasoning":{"effort":"low"}}}`,
	} {
		if _, err := resolve(limited, body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	for body, place := range map[string]string{
		`{"model":"b/x"}`: "/model", `{"model":"b/x@preset/free"}`: "/model", `{"svg":{"model":"b/x"}}`: "/svg/model",
	} {
		_, err := resolve(limited, body)
		wantKind(t, err, domain.Forbidden, place+": is not a model that the key may name")
	}
	for body, place := range map[string]string{
		`{"models":["a/x"]}`: "/models", `{"kwargs":{}}`: "/kwargs", `{"svg":{"model":"a/x","Model":"b"}}`: "/svg", `{"prompt":["a"]}`: "/prompt",
		`{"prompt":{"id":"x"}}`: "/prompt", `{"size":{}}`: "/size", `{"Model":"b/x"}`: "/Model", `{"preset":"free","tools":[]}`: "/tools",
	} {
		_, err := resolve(limited, body)
		wantKind(t, err, domain.Invalid, place+": ")
	}
	_, err := resolve(limitedBy(domain.Scope{PresetRequired: true}), `{"prompt":"p"}`)
	wantKind(t, err, domain.Invalid, "must name a preset")
	_, err = resolve(limitedBy(domain.Scope{Presets: []string{"p"}}), `{"model":"@preset/free"}`)
	wantKind(t, err, domain.NotFound, "free")

	r.changeWorkspace(t, r.home.ID, func(w *domain.Workspace) {
		w.DefaultImageModel, w.DisabledServerTools = new("a/b:online"), &[]string{"openrouter:web_search"}
	})
	for _, body := range []string{`{"prompt":"p"}`, `{"model":"@preset/free"}`, `{"model":"x:online"}`, `{"model":"x","svg":{"model":"y:online"}}`} {
		got, err := resolve(user, body)
		wantKind(t, err, domain.Forbidden, "openrouter:web_search is disabled")
		if got.Body != nil {
			t.Errorf("%s: a refused request has the body %s", body, got.Body)
		}
	}
	_, err = resolve(user, `{"model":"x","tools":[]}`)
	wantKind(t, err, domain.Invalid, "/tools: ")
}
