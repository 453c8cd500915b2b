package dialects

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

//go:embed images.json
var imagesText []byte

// images are the fields of requests of domain.Images, from the types of the official clients. Some have the name of
// another setting in the other dialects, so they have a table of their own. settings are those that image_config
// of a preset may have.
var images = func() (table struct{ fields, settings map[string]Form }) {
	var stored struct{ Fields, Settings map[string]any }
	if err := json.Unmarshal(imagesText, &stored); err != nil {
		panic(err) // a test reads it
	}
	formsOf := func(stored map[string]any) map[string]Form {
		forms := map[string]Form{}
		for name, form := range stored {
			forms[name] = NewForm(form)
		}
		return forms
	}
	table.fields, table.settings = formsOf(stored.Fields), formsOf(stored.Settings)
	return table
}()

// FormOf returns the form of a field of a dialect's requests. ok is false if they have no such field.
func FormOf(dialect domain.Dialect, name string) (form Form, ok bool) {
	if dialect == domain.Images {
		if form, ok = images.settings[name]; !ok {
			form, ok = images.fields[name]
		}
		return form, ok
	}
	f := Fields[name]
	if (f.Kept|f.Known)&SetOf(dialect) == 0 || f.Form == nil {
		return form, false
	}
	return *f.Form, true
}

// Names returns the names of the fields of a dialect's requests, sorted.
func Names(dialect domain.Dialect) []string {
	names := maps.Clone(images.fields)
	maps.Copy(names, images.settings)
	for name := range Fields {
		names[name] = Form{}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name string) bool {
		_, isKnown := FormOf(dialect, name)
		return !isKnown
	})
}

const imageConfig = "image_config"

// inImages are the settings of presets that requests of domain.Images have, too. models has no place there, but
// the merge chooses one of them.
var inImages = []string{"model", "provider", "seed", "models"}

// TranslateToImages is Translate for requests of domain.Images. A version of any other dialect may hold their
// settings: they are the members of image_config. image_size is what requests call resolution.
func TranslateToImages(settings []rawjson.Member, unknown map[string]bool) (fields []rawjson.Member, dropped []string) {
	drop := func(name string) {
		if name = HeaderName(name); !slices.Contains(dropped, name) {
			dropped = append(dropped, name)
		}
	}
	put := func(name, path string, value jsontext.Value) {
		if unknown[name] || rawjson.Find(fields, name) != nil {
			drop(path)
			return
		}
		fields = append(fields, rawjson.NewMember(name, value))
	}
	for _, s := range settings {
		switch {
		case s.Value.Kind() == 'n':
		case s.Name == "models": // also if it is unknown
			fields = append(fields, s)
			drop(s.Name)
		case slices.Contains(inImages, s.Name):
			put(s.Name, s.Name, s.Value)
		case s.Name == imageConfig:
			for quoted, value := range rawjson.Pairs(s.Value) {
				name, _ := rawjson.Text(quoted)
				path := imageConfig + "." + name
				if name == "image_size" {
					name = "resolution"
				}
				if form, ok := images.settings[name]; ok && form.Fits(value) {
					put(name, path, value)
				} else if value.Kind() != 'n' {
					drop(path)
				}
			}
		default:
			drop(s.Name)
		}
	}
	return fields, dropped
}

// ImagePlaces returns the places in requests of domain.Images of a rule that has places in the other dialects.
// Fields with another meaning there are not among them, but for the one that is named.
func ImagePlaces(places []Place, named string) (here []Place) {
	for _, at := range places {
		_, isImages := images.settings[at.Field]
		switch {
		case at.Field == imageConfig:
			here = append(here, at) // which allow_fields may open
			for _, name := range slices.Sorted(maps.Keys(images.settings)) {
				here = append(here, Place{Field: name})
			}
		case !isImages || at.Field == named:
			here = append(here, at)
		}
	}
	return here
}

// SaysSizeAgain reports whether a setting of the preset gives the size of images that a request gives by another
// field. Providers refuse both, unless the size is a tier ("2K") and the other is the aspect ratio.
func SaysSizeAgain(name string, value jsontext.Value, sent func(name string) jsontext.Value) bool {
	isPixels := func(size jsontext.Value) bool {
		text, _ := rawjson.Head(size, MaxText)
		return strings.Contains(text, "x")
	}
	switch name {
	case "size":
		return sent("resolution") != nil || sent("aspect_ratio") != nil && isPixels(value)
	case "resolution":
		return sent("size") != nil
	case "aspect_ratio":
		return isPixels(sent("size"))
	}
	return false
}
