package domain_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// put stores a version of a preset and returns its number.
func (f *fixture) put(t testing.TB, slug, config string, prompt *string) int {
	t.Helper()
	return f.must(f.ReleasePresetVersion(t.Context(), domain.By(admin), "", slug, domain.Capture{
		Dialect: domain.Responses, Config: json.RawMessage(config), SystemPrompt: prompt,
	}, domain.Release{})).Number
}

func TestDiff(t *testing.T) {
	f := newFixture(t)
	f.put(t, "support", `{"model":"m","temperature":0.70}`, new("Be brief.\nBe kind.\n"))
	f.put(t, "support", `{"model":"m<2>","temperature":0.70}`, new("Be brief.\nBe strict.\n"))
	for name, to := range map[string]domain.Target{
		"stable": {Version: 1}, "next": {Version: 2}, "test": {Split: []domain.Share{{Version: 1, Weight: 1}, {Version: 2, Weight: 1}}},
	} {
		f.must(f.PutLabel(t.Context(), domain.By(admin), "", "support", name, to, nil))
	}
	want := `{"from":1,"to":2,"config":[{"op":"replace","path":"/model","value":"m<2>","old":"m"}],` +
		`"system_prompt":"--- support@1\n+++ support@2\n@@ -1,2 +1,2 @@\n Be brief.\n-Be kind.\n+Be strict.\n","template":[]}`
	for _, named := range [][2]string{{"1", "2"}, {"stable", "next"}, {"1", "next"}} {
		found, err := f.Diff(t.Context(), user, "", "support", named[0], named[1])
		if err != nil || string(found.JSON) != want || found.Number != 2 {
			t.Errorf("%v: got  %s, version %d, %v\nwant %s, version 2", named, found.JSON, found.Number, err, want)
		}
	}
	found, err := f.Diff(t.Context(), admin, "default", "support", "2", "next")
	if want := `{"from":2,"to":2,"config":[],"system_prompt":null,"template":[]}`; err != nil || string(found.JSON) != want {
		t.Errorf("got %s, %v, want %s", found.JSON, err, want)
	}
	for name, tc := range map[string]struct {
		who            domain.Principal
		workspace      string
		slug, from, to string
		kind           domain.Kind
		says           string
		path           string
	}{
		"no from":               {admin, "", "support", "", "2", domain.Invalid, "from: must be", "from"},
		"no to":                 {admin, "", "support", "1", "", domain.Invalid, "to: must be", "to"},
		"no version 0":          {admin, "", "support", "0", "1", domain.Invalid, "from: must be a positive number", "from"},
		"no such from":          {admin, "", "support", "3", "1", domain.NotFound, "Preset version not found", "from"},
		"no such to":            {admin, "", "support", "1", "3", domain.NotFound, "Preset version not found", "to"},
		"beyond all numbers":    {admin, "", "support", "1", strings.Repeat("9", 40), domain.NotFound, "Preset version not found", "to"},
		"a leading zero":        {admin, "", "support", "01", "1", domain.Invalid, "from: must be a positive number without leading zeros", "from"},
		"negative":              {admin, "", "support", "-1", "1", domain.Invalid, "from: must be the number", "from"},
		"latest":                {admin, "", "support", "1", "latest", domain.NotFound, "Label not found", "to"},
		"no such label":         {admin, "", "support", "gone", "1", domain.NotFound, "Label not found", "from"},
		"split":                 {admin, "", "support", "1", "test", domain.Invalid, "to: stands for a split", "to"},
		"no such preset":        {admin, "", "nothing", "1", "2", domain.NotFound, "Preset not found", ""},
		"no such workspace":     {admin, "nowhere", "support", "1", "2", domain.NotFound, "Workspace not found", ""},
		"another's workspace":   {user, "nowhere", "support", "1", "2", domain.Forbidden, "Only management keys", ""},
		"preset before version": {admin, "", "nothing", "", "", domain.NotFound, "Preset not found", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.Diff(t.Context(), tc.who, tc.workspace, tc.slug, tc.from, tc.to)
			wantKind(t, err, tc.kind, tc.says)
			e, _ := errors.AsType[*domain.Error](err)
			if tc.path != "" && (len(e.Issues) != 1 || e.Issues[0].Path != tc.path) {
				t.Errorf("got issues %+v, want one of %s", e.Issues, tc.path)
			}
		})
	}
	f.must(f.ArchivePreset(t.Context(), domain.By(admin), "", "support"))
	wantKind(t, errOf(f.Diff(t.Context(), admin, "", "support", "1", "2")), domain.NotFound, "Preset not found")
}

func TestDiffOfTemplates(t *testing.T) {
	f := newFixture(t)
	for _, template := range []*domain.Template{
		nil,
		{Variables: []string{"city"}, Messages: []byte(`[ {"role":"user","content":"In {{city}}"} ]`)},
		{Variables: []string{"city"}, Messages: []byte(`[{"content":"In {{city}}","role":"user"}]`)},
		{Variables: []string{"town"}, Messages: []byte(`[{"role":"user","content":"In {{town}}","n":1.0}]`)},
	} {
		f.must(f.ReleasePresetVersion(t.Context(), domain.By(admin), "", "p", domain.Capture{Dialect: domain.Chat, Config: []byte(`{}`), Template: template}, domain.Release{}))
	}
	for versions, want := range map[[2]string]string{
		{"1", "1"}: `[]`,
		{"2", "3"}: `[]`,
		{"2", "1"}: `[{"op":"replace","path":"","value":null,"old":{"messages":[{"content":"In {{city}}","role":"user"}],"variables":["city"]}}]`,
		{"1", "2"}: `[{"op":"replace","path":"","value":{"messages":[{"content":"In {{city}}","role":"user"}],"variables":["city"]},"old":null}]`,
		{"3", "4"}: `[{"op":"replace","path":"/messages/0/content","value":"In {{town}}","old":"In {{city}}"},{"op":"add","path":"/messages/0/n","value":1.0},{"op":"replace","path":"/variables/0","value":"town","old":"city"}]`,
	} {
		found, err := f.Diff(t.Context(), user, "", "p", versions[0], versions[1])
		if err != nil || !strings.HasSuffix(string(found.JSON), `"system_prompt":null,"template":`+want+`}`) {
			t.Errorf("%v: got  %s, %v\nwant %s", versions, found.JSON, err, want)
		}
	}
}
