package command

import (
	"fmt"
	"slices"
	"strings"

	"ringcli/cli/render"
)

// ListOf is the value of a flag that holds several of an enumeration, separated by
// commas, each once. what is an error's word for one of them.
func ListOf[T comparable](words []string, what string, parse func(string) (T, error)) *Parsed[[]T] {
	text := func(list []T) string { return strings.Join(render.Words(list), ",") }
	return &Parsed[[]T]{Kind: "list", Completions: words, Text: text, Parse: func(list string) (values []T, err error) {
		for word := range strings.SplitSeq(list, ",") {
			v, err := parse(strings.TrimSpace(word))
			switch {
			case err != nil:
				return nil, err
			case slices.Contains(values, v):
				return nil, fmt.Errorf("expected each %sonce; %v is there twice", what, v)
			}
			values = append(values, v)
		}
		return values, nil
	}}
}
