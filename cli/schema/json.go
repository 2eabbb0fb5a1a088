// Package schema describes what ringcli prints with --output json: a JSON Schema
// (draft 2020-12) of every line, errors included. Package schematest makes it.
package schema

import _ "embed"

// JSON is the schema.
//
//go:embed ringcli.schema.json
var JSON string
