// Package schema describes what ringcli prints with --output json: a JSON Schema
// (draft 2020-12) of every line, errors included. Package schematest makes it.
package schema

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
)

// JSON is the schema.
//
//go:embed ringcli.schema.json
var JSON string

var records = sync.OnceValue(func() map[string][]string {
	var read struct {
		Defs map[string]struct {
			Properties struct {
				Command struct {
					Const string
					Enum  []string
				}
			}
		} `json:"$defs"`
		OneOf []struct {
			Ref string `json:"$ref"`
		}
	}
	if err := json.Unmarshal([]byte(JSON), &read); err != nil {
		panic("schema: " + err.Error()) // it is part of the program
	}
	commands := map[string][]string{}
	for _, one := range read.OneOf {
		name := one.Ref[strings.LastIndex(one.Ref, "/")+1:]
		command := read.Defs[name].Properties.Command
		if commands[name] = command.Enum; command.Const != "" {
			commands[name] = []string{command.Const}
		}
	}
	return commands
})

// Names are the types of records, which are the tables of CSV.
func Names() []string { return slices.Sorted(maps.Keys(records())) }

// Tables are those of a command that takes one of some words, as bench does the operations;
// all, if it has none of its own, as what runs a script.
func Tables(command string, words []string) (list []string) {
	for _, name := range Names() {
		if slices.ContainsFunc(records()[name], func(of string) bool {
			return of == command || strings.HasPrefix(of, command+" ") || slices.Contains(words, of)
		}) {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return Names()
	}
	return list
}
