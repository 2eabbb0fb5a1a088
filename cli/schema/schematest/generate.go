// Package schematest makes package schema's JSON Schema from the records' Go types
// and the comments on them, for the test that holds the one against the other.
package schematest

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"ringcli/cli/render"
)

// Record is a type of record and the values that its field "command" can have;
// without any, every text.
type Record struct {
	Type     reflect.Type
	Commands []string
}

// Comments tells what the source says about a type, or about a field of it
// ("Type.Field"); empty if nothing.
type Comments func(pkg, name string) string

// node is a JSON Schema. The order of its keys is that of the output.
type node struct {
	Schema      string           `json:"$schema,omitempty"`
	ID          string           `json:"$id,omitempty"`
	Title       string           `json:"title,omitempty"`
	Ref         string           `json:"$ref,omitempty"`
	Description string           `json:"description,omitempty"`
	Type        any              `json:"type,omitempty"` // a string, or two
	Const       any              `json:"const,omitempty"`
	Enum        []string         `json:"enum,omitempty"`
	Minimum     *int             `json:"minimum,omitempty"`
	Items       *node            `json:"items,omitempty"`
	Properties  properties       `json:"properties,omitempty"`
	Required    []string         `json:"required,omitempty"`
	Additional  any              `json:"additionalProperties,omitempty"` // false, or a *node
	OneOf       []*node          `json:"oneOf,omitempty"`
	Defs        map[string]*node `json:"$defs,omitempty"`
}

// properties keep the order of the fields.
type properties []property

type property struct {
	name string
	node *node
}

// MarshalJSON implements json.Marshaler.
func (p properties) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := json.Marshal(f.node)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", f.name, value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

type generator struct {
	comments Comments
	home     string // the package whose types, and those of the packages below it, go by their own name
	enums    map[reflect.Type][]string
	defs     map[string]*node
	types    map[string]reflect.Type // of defs
}

// name is that of a type's definition: "Failure", or of another package
// "diagnose.Failure".
func (g *generator) name(t reflect.Type) string {
	if t.PkgPath() == g.home || strings.HasPrefix(t.PkgPath(), g.home+"/") {
		return t.Name()
	}
	return t.String()
}

// Generate makes the schema of records. Types of home and of the packages below it go by their own
// names; enums are the values of those that have no others. It fails for a type that does not say
// which command it is of.
func Generate(home string, records []Record, comments Comments, enums map[reflect.Type][]string) ([]byte, error) {
	g := generator{comments, home, enums, map[string]*node{}, map[string]reflect.Type{}}
	root := &node{
		Schema: "https://json-schema.org/draft/2020-12/schema", ID: "urn:ringcli:output",
		Title:       "ringcli --output json",
		Description: "One line of what ringcli prints with --output json: the result of a command, or why it failed. \"command\" and \"ok\" are in all of them.",
		Defs:        g.defs,
	}
	for _, r := range records {
		n, err := g.structOf(r.Type)
		if err != nil {
			return nil, err
		}
		if len(n.Properties) < 2 || n.Properties[0].name != "command" || n.Properties[1].name != "ok" {
			return nil, fmt.Errorf("schema: %s: expected the fields \"command\" and \"ok\" first", r.Type)
		}
		command := n.Properties[0].node
		switch commands := slices.Sorted(slices.Values(r.Commands)); len(commands) {
		case 0:
		case 1:
			command.Const = commands[0]
		default:
			command.Enum = commands
		}
		if !slices.ContainsFunc(n.Properties, func(p property) bool { return p.name == "job" }) {
			n.Properties = append(n.Properties, property{"job", &node{Type: "integer", Description: "The number of the command in the background that printed it; left out of one in front."}})
		}
		root.OneOf = append(root.OneOf, &node{Ref: "#/$defs/" + g.name(r.Type)})
	}
	slices.SortFunc(root.OneOf, func(a, b *node) int { return strings.Compare(a.Ref, b.Ref) })
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, err
	}
	text = []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text)))
	return append(text, '\n'), nil
}

// structOf returns the definition of a struct, which it makes once.
func (g *generator) structOf(t reflect.Type) (*node, error) {
	name := g.name(t)
	if known := g.defs[name]; known != nil {
		if g.types[name] != t {
			return nil, fmt.Errorf("schema: %s is the name of %s/%s and of %s/%s", name, t.PkgPath(), t.Name(), g.types[name].PkgPath(), t.Name())
		}
		return known, nil
	}
	g.types[name] = t
	n := &node{Description: g.comments(t.PkgPath(), t.Name()), Type: "object", Additional: false}
	g.defs[name] = n
	return n, g.fields(n, t)
}

// fields adds those of a struct.
func (g *generator) fields(n *node, t reflect.Type) error {
	for _, f := range render.Fields(t) {
		if f.JSON == "" {
			return fmt.Errorf("schema: %s.%s: expected a json name", f.Of, f.Name)
		}
		field, err := g.value(f.Type, !f.Optional)
		if err != nil {
			return fmt.Errorf("%w (%s.%s)", err, f.Of, f.Name)
		}
		if text := g.comments(f.Of.PkgPath(), f.Of.Name()+"."+f.Name); text != "" {
			field.Description = text
		}
		n.Properties = append(n.Properties, property{f.JSON, field})
		if !f.Optional {
			n.Required = append(n.Required, f.JSON)
		}
	}
	return nil
}

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
)

// value returns the schema of a field's value; a nil one is null where it is not
// left out.
func (g *generator) value(t reflect.Type, null bool) (*node, error) {
	zero := 0
	kind := func(name string) any {
		if null {
			return []string{name, "null"}
		}
		return name
	}
	switch {
	case t.Kind() == reflect.Pointer:
		n, err := g.value(t.Elem(), false)
		if err != nil || !null {
			return n, err
		}
		if name, ok := n.Type.(string); ok {
			n.Type = []string{name, "null"}
			return n, nil
		}
		return &node{OneOf: []*node{n, {Type: "null"}}}, nil
	case t.Implements(textMarshaler):
		return &node{Type: "string"}, nil
	case t.Implements(jsonMarshaler), t.Kind() == reflect.Interface:
		return &node{}, nil // anything
	}
	switch t.Kind() {
	case reflect.String:
		return &node{Type: "string", Enum: g.enums[t]}, nil
	case reflect.Bool:
		return &node{Type: "boolean"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &node{Type: "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &node{Type: "integer", Minimum: &zero}, nil
	case reflect.Float32, reflect.Float64:
		return &node{Type: "number"}, nil
	case reflect.Struct:
		_, err := g.structOf(t)
		return &node{Ref: "#/$defs/" + g.name(t)}, err
	case reflect.Slice, reflect.Array:
		items, err := g.value(t.Elem(), true)
		return &node{Type: kind("array"), Items: items}, err
	case reflect.Map:
		items, err := g.value(t.Elem(), true)
		return &node{Type: kind("object"), Additional: items}, err
	}
	return nil, fmt.Errorf("schema: %s: expected a type that JSON has", t)
}
