package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/domain"
)

// changer makes changes of presets on which a command reports.
type changer struct {
	target
	// override is the owner whose presets are changed nevertheless, empty for none.
	override string
}

func (c *changer) flags(cmd *cobra.Command) {
	c.target.flags(cmd)
	cmd.Flags().StringVar(&c.override, "override", "", "Change the preset though this owner manages it")
}

// change is changePreset with the owner to override.
func (c *changer) change(cmd *cobra.Command, a api, slug string, r client.Request, body any) (before client.Preset, response *client.Response, err error) {
	if r.Header, err = c.header(); err != nil {
		return before, nil, err
	}
	before, response, err = a.changePreset(cmd.Context(), slug, r, body)
	return before, response, withOwner(err, slug)
}

// header returns the header of a change, with the owner to override.
func (c *changer) header() (http.Header, error) {
	header := make(http.Header)
	if c.override != "" {
		if err := domain.CheckOwner("--override", c.override); err != nil {
			return nil, err
		}
		header.Set("X-Preset-Override", c.override)
	}
	return header, nil
}

// withOwner returns the error of a change with the option that overrides the owner, if that is the cause.
func withOwner(err error, slug string) error {
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusConflict && len(refused.Issues) == 1 {
		if owner, ok := strings.CutPrefix(refused.Issues[0].Message, "the preset is managed by "); ok {
			return managedError(slug, owner)
		}
	}
	return err
}

func managedError(slug, owner string) error {
	return fmt.Errorf("preset %s is managed by %s: change it there, or pass --override %s", slug, owner, owner)
}

// changePreset changes a preset, unless it changes meanwhile, and returns it as it was before.
func (a api) changePreset(ctx context.Context, slug string, r client.Request, body any) (before client.Preset, response *client.Response, err error) {
	before, response, err = a.preset(ctx, slug)
	if err != nil {
		return before, nil, err
	}
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	r.Header.Set("If-Match", response.Tag())
	response, err = a.change(ctx, r, body)
	return before, response, err
}

// designation returns the request that puts a version live, which ref names by its number or a label.
func designation(slug, ref string) (r client.Request, body map[string]any, err error) {
	number, err := numberIn(ref)
	if err != nil {
		return r, nil, err
	}
	body = map[string]any{"version": number}
	if number == 0 {
		body = map[string]any{"label": ref}
	}
	return client.Request{Method: http.MethodPost, Path: client.PresetPath(slug, "designate")}, body, nil
}

func designateCommand() *cobra.Command {
	var c changer
	designate := &cobra.Command{
		Use:   "designate <slug> <version> [--override <owner>] [--json]",
		Short: "Chooses the version that requests get, by its number or a label",
		Long: `
Chooses the version that requests get if they name the preset alone: rolls back, or puts a draft
live. The version is a number or a label. Nothing is changed if someone else changes the preset
at the same time.`,
		Args: cobra.ExactArgs(2),
		RunE: c.withAPI(func(cmd *cobra.Command, a api, args []string) error {
			slug, ref := args[0], args[1]
			r, body, err := designation(slug, ref)
			if err != nil {
				return err
			}
			p, response, err := c.change(cmd, a, slug, r, body)
			if err != nil {
				return err
			}
			var after client.Preset
			if err := client.Decode(response.Data, &after); err != nil {
				return err
			}
			sentence := fmt.Sprintf("Requests for %s get version %d, before it was %d.", slug, after.DesignatedVersion, p.DesignatedVersion)
			if after.DesignatedVersion == p.DesignatedVersion {
				sentence = fmt.Sprintf("Requests for %s get version %d, as before.", slug, after.DesignatedVersion)
			}
			return c.report(cmd, response, sentence)
		}),
		ValidArgsFunction: c.completeArgs(slugs, labels),
	}
	c.flags(designate)
	return takesReference(designate, 1)
}

func labelCommand() *cobra.Command {
	var c changer
	var remove, history bool
	label := &cobra.Command{
		Use:   "label <slug> <label> <version>|<version>:<weight>,… | --delete | --history [--override <owner>] [--json]",
		Short: "Sets or removes a label of a preset, or shows its history",
		Long: `
Sets a label to a version, or splits its requests between several versions by weight. --delete
removes it. Nothing is changed if someone else changes the preset at the same time. --history
lists who made the label stand for what, the last change first, also after it is removed.`,
		Example: `  $ caddy presets label email-copywriter staging 2
  $ caddy presets label email-copywriter canary 2:90,3:10
  $ caddy presets label email-copywriter canary --delete
  $ caddy presets label email-copywriter canary --history`,
		Args: func(cmd *cobra.Command, args []string) error {
			if remove || history {
				return cobra.ExactArgs(2)(cmd, args)
			}
			return cobra.ExactArgs(3)(cmd, args)
		},
		RunE: c.withAPI(func(cmd *cobra.Command, a api, args []string) error {
			slug, name := args[0], args[1]
			if err := domain.CheckLabel(name); err != nil {
				return err
			}
			if history {
				return a.printHistory(cmd, c.asJSON, slug, name)
			}
			r := client.Request{Method: http.MethodDelete, Path: client.PresetPath(slug, "labels", name)}
			var body any
			sentence := fmt.Sprintf("Label %s of %s is removed", name, slug)
			if !remove {
				to, err := targetIn(args[2])
				if err != nil {
					return err
				}
				r.Method, body = http.MethodPut, to
				sentence = fmt.Sprintf("Label %s of %s stands for %s", name, slug, targetText(to))
			}
			p, response, err := c.change(cmd, a, slug, r, body)
			if err != nil {
				return err
			}
			if from, existed := p.Labels[name]; existed {
				sentence += ", before it stood for " + targetText(from)
			}
			return c.report(cmd, response, sentence+".")
		}),
		ValidArgsFunction: c.completeArgs(slugs, labels),
	}
	c.flags(label)
	label.Flags().BoolVar(&remove, "delete", false, "Remove the label")
	label.Flags().BoolVar(&history, "history", false, "List the changes of the label")
	label.MarkFlagsMutuallyExclusive("delete", "history")
	label.MarkFlagsMutuallyExclusive("override", "history")
	return takesReference(label, 2)
}

// printHistory prints the changes of a label, the last one first.
func (a api) printHistory(cmd *cobra.Command, asJSON bool, slug, label string) error {
	if err := domain.CheckPresetSlug(slug); err != nil {
		return err
	}
	text := func(to *domain.Target) string {
		if to == nil {
			return ""
		}
		return targetText(*to)
	}
	columns := []string{"CHANGE", "TIME", "BEFORE", "AFTER", "BY"}
	return printList(cmd, asJSON, a.labelChanges(cmd.Context(), slug, label), columns, func(c domain.LabelChange) []string {
		return []string{strconv.Itoa(c.Number), timeText(c.Time), text(c.From), text(c.To), c.UserID}
	})
}

// labelChanges yields the changes of a label. Changes that others make meanwhile are left out.
func (a api) labelChanges(ctx context.Context, slug, label string) elements {
	return func(yield func(json.RawMessage, error) bool) {
		offset := 0
		for last := math.MaxInt; last > 1; {
			var page struct {
				History []json.RawMessage `json:"history"`
			}
			response, err := a.get(ctx, client.PresetPath(slug, "labels", label), a.query("offset", strconv.Itoa(offset), "limit", "100"))
			if err == nil {
				err = client.Decode(response.Data, &page)
			}
			before := last
			for _, text := range page.History {
				var change domain.LabelChange
				if err = client.Decode(text, &change); err != nil {
					break
				}
				if change.Number >= last {
					continue
				}
				if last = change.Number; !yield(text, nil) {
					return
				}
			}
			if err == nil && last == before {
				err = fmt.Errorf("the history of label %s has no change before number %d", label, last)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			offset += len(page.History)
		}
	}
}

// targetIn reads what a label is to stand for: 2, or a split such as 2:90,3:10.
func targetIn(text string) (to domain.Target, err error) {
	errForm := fmt.Errorf("%q is neither the number of a version nor a split such as 2:90,3:10", text)
	if !strings.Contains(text, ":") {
		to.Version, err = numberIn(text)
		if err != nil || to.Version == 0 {
			return to, cmp.Or(err, errForm)
		}
		return to, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		number, weight, _ := strings.Cut(part, ":")
		var share domain.Share
		var isVersion, isWeight bool
		share.Version, isVersion = domain.ParseNumber(number)
		share.Weight, isWeight = domain.ParseNumber(weight)
		if !isVersion || !isWeight || share.Version == 0 {
			return to, errForm
		}
		if share.Weight > domain.MaxWeight {
			return to, fmt.Errorf("%q: a weight is at most %d", text, domain.MaxWeight)
		}
		to.Split = append(to.Split, share)
	}
	return to, nil
}
