package caddymodule

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"testing"
)

// suiteStatuses are the statuses of a value when a preset is created and when one is used.
type suiteStatuses struct{ made, used int }

var (
	suiteAccepted = suiteStatuses{200, 202}
	suiteRefused  = suiteStatuses{400, 400}
	// suitePassed is for a value that no preset may have, in a member that we do not read.
	// It passes to the gateway byte for byte.
	suitePassed = suiteStatuses{400, 202}
)

// suiteExceptions are the documents of JSONTestSuite whose name does not determine the
// result. Their results are open, or they have duplicate names. Presets take no number
// beyond the range of a double.
var suiteExceptions = map[string]suiteStatuses{
	"y_object_duplicated_key.json":           suitePassed,
	"y_object_duplicated_key_and_value.json": suitePassed,

	"i_number_double_huge_neg_exp.json":                   suiteAccepted,
	"i_number_huge_exp.json":                              suitePassed,
	"i_number_neg_int_huge_exp.json":                      suitePassed,
	"i_number_pos_double_huge_exp.json":                   suitePassed,
	"i_number_real_neg_overflow.json":                     suitePassed,
	"i_number_real_pos_overflow.json":                     suitePassed,
	"i_number_real_underflow.json":                        suiteAccepted,
	"i_number_too_big_neg_int.json":                       suiteAccepted,
	"i_number_too_big_pos_int.json":                       suiteAccepted,
	"i_number_very_big_negative_int.json":                 suiteAccepted,
	"i_object_key_lone_2nd_surrogate.json":                suitePassed,
	"i_string_1st_surrogate_but_2nd_missing.json":         suitePassed,
	"i_string_1st_valid_surrogate_2nd_invalid.json":       suitePassed,
	"i_string_UTF-16LE_with_BOM.json":                     suiteRefused,
	"i_string_UTF-8_invalid_sequence.json":                suitePassed,
	"i_string_UTF8_surrogate_U+D800.json":                 suitePassed,
	"i_string_incomplete_surrogate_and_escape_valid.json": suitePassed,
	"i_string_incomplete_surrogate_pair.json":             suitePassed,
	"i_string_incomplete_surrogates_escape_valid.json":    suitePassed,
	"i_string_invalid_lonely_surrogate.json":              suitePassed,
	"i_string_invalid_surrogate.json":                     suitePassed,
	"i_string_invalid_utf-8.json":                         suitePassed,
	"i_string_inverted_surrogates_U+1D11E.json":           suitePassed,
	"i_string_iso_latin_1.json":                           suitePassed,
	"i_string_lone_second_surrogate.json":                 suitePassed,
	"i_string_lone_utf8_continuation_byte.json":           suitePassed,
	"i_string_not_in_unicode_range.json":                  suitePassed,
	"i_string_overlong_sequence_2_bytes.json":             suitePassed,
	"i_string_overlong_sequence_6_bytes.json":             suitePassed,
	"i_string_overlong_sequence_6_bytes_null.json":        suitePassed,
	"i_string_truncated-utf-8.json":                       suitePassed,
	"i_string_utf16BE_no_BOM.json":                        suiteRefused,
	"i_string_utf16LE_no_BOM.json":                        suiteRefused,
	"i_structure_500_nested_arrays.json":                  suitePassed,
	"i_structure_UTF-8_BOM_empty_object.json":             suiteRefused,
}

// TestJSONTestSuite sends JSONTestSuite's documents as values inside requests that create
// and use presets. Valid JSON is accepted, and invalid JSON is refused. The data is in
// shared/jsontestsuite beside the checkout, or in PRESETS_JSONTESTSUITE. It is not part of
// this repository.
func TestJSONTestSuite(t *testing.T) {
	folder := filepath.Join(cmp.Or(os.Getenv("PRESETS_JSONTESTSUITE"), filepath.Join("..", "..", "shared", "jsontestsuite")), "test_parsing")
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Skipf("NOT TESTED: JSONTestSuite is not there: %v", err)
	}
	s := start(t, inferring())
	s.preset("p", `{"model":"m"}`)
	counts := map[byte]int{}
	for _, file := range files {
		name := file.Name()
		value, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		counts[name[0]]++
		want, ok := suiteExceptions[name]
		if !ok {
			want = map[byte]suiteStatuses{'y': suiteAccepted, 'n': suiteRefused}[name[0]]
		}
		made := s.manage("POST", "/v1/presets/suite/responses", `{"model":"m","other":`+string(value)+"}")
		used := s.do("POST", chatPath, `{"model":"@preset/p","other":`+string(value)+"}", bearer(inferenceSecret))
		if got := (suiteStatuses{made.status, used.status}); got != want {
			t.Errorf("%s: got %v, want %v: %.200q and %.200q", name, got, want, made.body, used.body)
		}
		if made.status == 400 {
			made.wantError(t, 400, "Invalid request parameters: ")
		}
		if used.status == 400 {
			used.wantError(t, 400, "Invalid request parameters: ")
			s.upstream.none(t)
		} else if got := s.upstream.one(t).body; got != `{"model":"m","other":`+string(bytes.TrimSpace(value))+"}" {
			t.Errorf("%s: the gateway got %.200q", name, got)
		}
		if name[0] == 'n' { // the value is no request by itself
			s.manage("POST", "/v1/presets/suite/responses", string(value)).wantError(t, 400, "Invalid request parameters: ")
		}
	}
	if counts['y'] != 95 || counts['n'] != 188 || counts['i'] != 35 {
		t.Errorf("got %v documents, want 95 that are JSON, 188 that are not and 35 that are open", counts)
	}
}
