package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// inferenceKeyVariable is the environment variable with the inference key.
	inferenceKeyVariable = "PRESETS_INFERENCE_KEY"
	// maxInput bounds the input from standard input, in bytes.
	maxInput = 1 << 20
	// defaultInput is the input if none is given, and the template has no messages.
	defaultInput = "Hello"
)

type trial struct {
	target  // its key is an inference key
	version string
	input   string
	values  []string // name=value
	send    bool
	replay  string // a file of the log of content
	limit   int

	versions []string // --version, of which version is the last
	inputs   bool
}

func tryCommand() *cobra.Command {
	var t trial
	try := &cobra.Command{
		Use:   "try <slug> [--send] [--input <text>] [--var <name>=<value>] [--inputs] [--replay <file>] [--version <number or label>] [--json]",
		Short: "Shows the request that a preset makes, or sends it",
		Long: `
Shows what the gateway would get from a request that names the preset, and where each field comes
from. With --send the gateway gets it, and the answer is printed as it comes. The usage and the
time follow on standard error.

With --inputs the gateway gets all saved inputs of the preset, for each --version. The command fails if a
request fails, so that a pipeline can compare the versions before one is put live.

With --replay the gateway gets requests of the log of content again, as their clients sent them,
but for the version that --version names. Both answers are printed side by side, with their tokens,
cost and time. Lines of other presets and workspaces are left out, and those whose request
is cut, or has images, files or keys.

The command takes an inference key, and works in the workspace of this key.`,
		Example: `  $ caddy presets try email-copywriter --input "Our shop opens on Monday"
  $ git diff | caddy presets try reviewer --send
  $ caddy presets try tour-guide --var city=Rome --version staging --send
  $ caddy presets try reviewer --replay presets-io.log --limit 20 --version 15
  $ caddy presets try reviewer --inputs --version 14 --version 15 --json`,
		Args: cobra.ExactArgs(1),
		RunE: t.withAPI(func(cmd *cobra.Command, a api, args []string) error {
			return t.run(cmd, a, args[0])
		}),
		ValidArgsFunction: t.completeArgs(slugs),
	}
	t.serverFlags(try, "inference", "inference-key-file", inferenceKeyVariable)
	flags := try.Flags()
	flags.BoolVar(&t.send, "send", false, "Send the request to the gateway, which may cost money")
	flags.StringVar(&t.input, "input", "", "The message to send; default: standard input if that is a pipe or a file, else "+defaultInput)
	flags.StringArrayVar(&t.values, "var", nil, "A variable of a template, as name=value; may be repeated")
	flags.StringArrayVar(&t.versions, "version", nil, "The number of a version, or a label; may be repeated with --inputs; default: the designated version")
	flags.BoolVar(&t.inputs, "inputs", false, "Send the saved inputs of the preset to the gateway, which may cost money")
	try.MarkFlagsMutuallyExclusive("inputs", "input")
	try.MarkFlagsMutuallyExclusive("inputs", "var")
	flags.StringVar(&t.replay, "replay", "", "Send requests of this file of the log of content again, which may cost money; - is standard input")
	flags.IntVar(&t.limit, "limit", 1, "How many requests --replay sends at most")
	try.MarkFlagsMutuallyExclusive("replay", "input")
	try.MarkFlagsMutuallyExclusive("replay", "var")
	try.MarkFlagsMutuallyExclusive("inputs", "replay")
	completeFlag(try, "version", t.complete(labels))
	return takesReference(try, toVersionFlag)
}

func (t *trial) run(cmd *cobra.Command, a api, slug string) error {
	switch last := len(t.versions) - 1; {
	case t.inputs:
		return t.runInputs(cmd, a, slug)
	case last > 0:
		return errors.New("--version may be given once, except with --inputs")
	case last == 0:
		t.version = t.versions[0]
	}
	if t.replay != "" {
		return t.replayFile(cmd, a, slug)
	}
	p, _, err := a.preset(cmd.Context(), slug)
	if err != nil {
		return err
	}
	v, err := a.triedVersion(cmd.Context(), p, t.version)
	if err != nil {
		return err
	}
	input, err := t.readInput(cmd)
	if err != nil {
		return err
	}
	variables, err := variablesIn(t.values)
	if err != nil {
		return err
	}
	r, err := newTrial(slug, t.version, v, input, variables)
	if err != nil {
		return err
	}
	if t.send {
		return t.stream(cmd, a, v.Dialect, r)
	}
	response, err := a.dryRun(cmd.Context(), r)
	if err != nil {
		return err
	}
	return printData(cmd, t.asJSON, response, dryRunText)
}

// dryRun returns what the gateway would get from a request.
func (a api) dryRun(ctx context.Context, r client.Request) (*client.Response, error) {
	r.Header = http.Header{"X-Preset-Dry-Run": {"true"}}
	return a.Do(ctx, r)
}

// triedVersion reads the version that ref names, or the first one of a split. The server may
// choose another one. All take the same request but for their variables.
func (a api) triedVersion(ctx context.Context, p client.Preset, ref string) (v client.Version, err error) {
	if to := p.Labels[ref]; len(to.Split) > 0 {
		v, _, err = a.version(ctx, p.Slug, to.Split[0].Version)
	} else {
		v, err = a.versionOf(ctx, p, ref)
	}
	if err == nil && !v.Dialect.Valid() {
		err = fmt.Errorf("version %d is for the API %q, which this program does not know", v.Version, v.Dialect)
	}
	return v, err
}

// trialRequest is a request in any of the three APIs.
type trialRequest struct {
	Model         string          `json:"model"`
	Input         string          `json:"input,omitempty"`
	Messages      []message       `json:"messages,omitempty"`
	Prompt        map[string]any  `json:"prompt,omitempty"`
	Stream        bool            `json:"stream"`
	StreamOptions map[string]bool `json:"stream_options,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// newTrial returns a streamed request for the version v, which ref names.
func newTrial(slug, ref string, v client.Version, input string, variables map[string]string) (client.Request, error) {
	if input == "" && (v.Template == nil || strings.Trim(string(v.Template.Messages), "[] \t\r\n") == "") {
		input = defaultInput
	}
	reference := domain.ReferenceMark + slug
	if ref != "" {
		reference += "@" + ref
	}
	request := trialRequest{Model: reference, Stream: true}
	switch {
	case input == "":
	case v.Dialect == domain.Responses:
		request.Input = input
	default:
		request.Messages = []message{{"user", input}}
	}
	if v.Dialect == domain.Chat {
		request.StreamOptions = map[string]bool{"include_usage": true}
	}
	if len(variables) > 0 {
		request.Prompt = map[string]any{"variables": variables}
	}
	body, err := encode(request, "") // people read it in a dry run
	return client.Request{Method: http.MethodPost, Path: "/" + string(v.Dialect), Body: body}, err
}

// variablesIn returns the variables in pairs name=value.
func variablesIn(pairs []string) (map[string]string, error) {
	variables := make(map[string]string)
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if _, isTwice := variables[name]; !ok || name == "" || isTwice {
			return nil, fmt.Errorf("--var %s must be name=value, once for each name", name)
		}
		variables[name] = value
	}
	return variables, nil
}

func (t *trial) readInput(cmd *cobra.Command) (string, error) {
	if t.input != "" || t.keyFile == "-" {
		return t.input, nil
	}
	in := cmd.InOrStdin()
	if file, ok := in.(*os.File); ok {
		// A terminal or a device would let the command wait for ever.
		if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() && info.Mode()&os.ModeNamedPipe == 0 {
			return "", nil
		}
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading standard input: %w", err)
	case len(text) > maxInput:
		return "", fmt.Errorf("standard input has more than %d bytes", maxInput)
	case !utf8.Valid(text):
		return "", errors.New("standard input is not UTF-8 text")
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

func dryRunText(result client.DryRun) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n%s\n\n", terminal.Escape(result.Method), terminal.Escape(result.Path), terminal.IndentJSON(json.RawMessage(result.Body)))
	rows := terminal.NewTable(&text)
	rows.Row("FIELD", "FROM")
	for _, name := range slices.Sorted(maps.Keys(result.Fields)) {
		field := result.Fields[name]
		from := field.From
		if field.Preset != nil && field.Version != nil {
			from = fmt.Sprintf("%s %s@%d", field.From, *field.Preset, *field.Version)
		}
		rows.Row(name, from)
	}
	_ = rows.Flush() // into memory
	printNames(&text, "Changed by the policy of the preset", result.Enforced)
	printNames(&text, "Left out, because this API does not have them", result.Dropped)
	fmt.Fprintln(&text, "\nNothing was sent to the gateway. --send sends it.")
	return text.String()
}

func printNames(w io.Writer, title string, names []string) {
	if len(names) > 0 {
		fmt.Fprintf(w, "%s: %s\n", title, terminal.Escape(strings.Join(names, ", ")))
	}
}
