package schema

import (
	"bytes"
	"encoding/json"
)

// CheckInFull is Check without views: the validator sees the whole body. Check must find
// the same violations.
func (s *Schema) CheckInFull(body []byte) error {
	members, err := readObject(body)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return err
	}
	full := inFull(object).(map[string]any)
	for _, m := range members {
		schemas, _ := s.rules.member(m.Name)
		if len(schemas) == 1 && shallowOf(schemas[0]) != nil {
			all := &skimmed{kind: m.Value.Kind()}
			items, _ := full[m.Name].([]any)
			for index, item := range items {
				all.items = append(all.items, skimmedItem{index, item})
			}
			full[m.Name] = all
		}
	}
	return s.collect(members, s.root.Validate(full))
}

func inFull(value any) any {
	switch value := value.(type) {
	case json.Number:
		n, _ := value.Float64()
		return n
	case []any:
		full := make([]any, len(value))
		for i, item := range value {
			full[i] = inFull(item)
		}
		return full
	case map[string]any:
		full := make(map[string]any, len(value))
		for name, member := range value {
			if name == "" {
				name = emptyName
			}
			full[name] = inFull(member)
		}
		return full
	}
	return value
}
