package schematest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// SourceComments reads the comments on types and fields of the packages of a
// module that lies in the directory root. A type's is the first paragraph of its
// documentation, without its name; a field's is what stands above it or beside
// it.
func SourceComments(module, root string) (Comments, error) {
	known := map[string]map[string]string{}
	var failed error
	lookup := func(pkg, name string) string {
		dir, inside := strings.CutPrefix(pkg, module)
		if !inside || failed != nil {
			return ""
		}
		if known[pkg] == nil {
			known[pkg], failed = commentsOf(filepath.Join(root, dir))
		}
		return known[pkg][name]
	}
	lookup(module+"/cli", "")
	return lookup, failed
}

func commentsOf(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("schema: comments of a package: %w", err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("schema: comments of a package: %w", err)
		}
		for _, d := range file.Decls {
			if types, ok := d.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				for _, s := range types.Specs {
					addType(all, types, s.(*ast.TypeSpec))
				}
			}
		}
	}
	return all, nil
}

func addType(all map[string]string, decl *ast.GenDecl, spec *ast.TypeSpec) {
	name, doc := spec.Name.Name, spec.Doc
	if doc == nil {
		doc = decl.Doc
	}
	// "Verdict is the last word" is "The last word".
	text := oneLine(doc)
	for _, verb := range []string{" is ", " are ", " has ", " says "} {
		if rest, found := strings.CutPrefix(text, name+verb); found {
			if text = rest; verb == " says " || verb == " has " {
				text = strings.TrimSpace(verb) + " " + rest
			}
			text = strings.ToUpper(text[:1]) + text[1:]
		}
	}
	all[name] = text
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range fields.Fields.List {
		text := oneLine(f.Doc)
		if beside := oneLine(f.Comment); beside != "" {
			text = strings.TrimSpace(text + " " + beside)
		}
		for _, n := range f.Names {
			all[name+"."+n.Name] = text
		}
	}
}

// oneLine is the first paragraph of a comment.
func oneLine(c *ast.CommentGroup) string {
	if c == nil {
		return ""
	}
	first, _, _ := strings.Cut(c.Text(), "\n\n")
	return strings.Join(strings.Fields(first), " ")
}
