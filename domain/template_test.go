package domain_test

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

func TestTemplateCheck(t *testing.T) {
	for _, template := range []*domain.Template{
		nil,
		{Messages: []byte(`[]`)},
		{Variables: []string{"a", "_b.c-1"}, Messages: []byte(`[ {"role":"user"} , {} ]`)},
	} {
		if err := template.Check(); err != nil {
			t.Errorf("%+v: %v", template, err)
		}
	}
	for _, tc := range []struct {
		variables []string
		messages  string
		place     string
	}{
		{[]string{"a", ""}, `[]`, "/template/variables/1"},
		{[]string{"-a"}, `[]`, "/template/variables/0"},
		{[]string{"a", "b", "a"}, `[]`, "/template/variables/2"},
		{[]string{"a\n"}, `[]`, "/template/variables/0"},
		{nil, ``, "/template/messages"},
		{nil, `null`, "/template/messages"},
		{nil, `{}`, "/template/messages"},
		{nil, `["text"]`, "/template/messages"},
		{nil, `[{},7]`, "/template/messages"},
		{nil, `[{}`, "/template/messages"},
		{nil, `[{}] []`, "/template/messages"},
		{nil, ` [{}]`, "/template/messages"},
		{nil, `[{}] `, "/template/messages"},
		{nil, `[{"a":1,"a":2}]`, "/template/messages"},
		{nil, "[{\"a\":\"\xff\"}]", "/template/messages"},
	} {
		err := (&domain.Template{Variables: tc.variables, Messages: []byte(tc.messages)}).Check()
		if domain.KindOf(err) != domain.Invalid || !strings.Contains(err.Error(), tc.place+": must be") {
			t.Errorf("%q, %s: got %v, want %s", tc.variables, tc.messages, err, tc.place)
		}
	}
}

// A template counts in the size of a version.
func TestSizeOfATemplate(t *testing.T) {
	in := domain.Capture{Config: []byte(`{}`), Template: &domain.Template{Messages: []byte(`[{"a":"` + strings.Repeat("x", domain.MaxStoredSize-12) + `"}]`)}}
	if err := in.CheckSize(); err != nil {
		t.Error(err)
	}
	in.Template.Variables = []string{"x"}
	if err := in.CheckSize(); domain.KindOf(err) != domain.Invalid {
		t.Errorf("got %v, want Invalid", err)
	}
}
