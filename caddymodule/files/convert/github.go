package convert

import (
	"regexp"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

var githubExtension = regexp.MustCompile(`(?i)(\.prompt)?\.ya?ml$`)

// readGitHub reads .prompt.yml files of GitHub Models.
func readGitHub(c *conversion) ([]*prompt, error) {
	roots, err := c.yamlRoots(".prompt.yml", ".prompt.yaml")
	if err != nil {
		return nil, err
	}
	var found prompts
	for _, root := range roots {
		name := githubExtension.ReplaceAllString(root.file, "")
		if name == "" {
			name = noSlug
		}
		if root.get("messages").kind() != '[' {
			c.refuse(root, "must have messages, as a .prompt.yml of GitHub Models has")
			continue
		}
		p := found.of(name)
		p.oneUnnumbered = true
		p.title, p.description = root.textOf("name"), root.textOf("description")
		v := &version{dialect: domain.Chat, syntax: plainBraces, place: root}
		p.versions = append(p.versions, v)
		v.readGitHub(root)
	}
	return found.all, nil
}

// githubNames are the names of a chat request for those of modelParameters.
var githubNames = map[string]string{
	"maxTokens": "max_tokens", "maxCompletionTokens": "max_completion_tokens", "topP": "top_p", "frequencyPenalty": "frequency_penalty", "presencePenalty": "presence_penalty",
}

func (v *version) readGitHub(root node) {
	v.set("model", root.get("model"))
	for name, value := range root.get("modelParameters").members() {
		if other := githubNames[name]; other != "" {
			name = other
		}
		v.set(name, value)
	}
	if format := root.get("responseFormat"); format.exists() {
		members := []rawjson.Member{{Name: "type", Value: format.value}}
		if text, ok := root.get("jsonSchema").text(); ok {
			if schema, err := root.get("jsonSchema").parse([]byte(text)); err != nil {
				v.leave(root.get("jsonSchema"), err.Error())
			} else {
				members = append(members, rawjson.Member{Name: "json_schema", Value: schema.value})
			}
		}
		format.value = rawjson.ObjectOf(members...)
		v.set("response_format", format)
	}
	v.readMessages(root.get("messages"))
	v.leaveOthers(root, "name description model modelParameters responseFormat jsonSchema messages")
}
