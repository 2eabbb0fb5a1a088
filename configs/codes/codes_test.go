package codes

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// declared are the constants of type Code, by name.
func declared(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && fmt.Sprint(v.Type) == "Code" {
			if all[v.Names[0].Name], err = strconv.Unquote(v.Values[0].(*ast.BasicLit).Value); err != nil {
				t.Error(err)
			}
		}
		return true
	})
	return all
}

// The table has each code once and says all of it, and each code is one that some
// package gives an error.
func TestTheTableIsWhole(t *testing.T) {
	all := declared(t)
	if names, want := slices.Sorted(slices.Values(Names())), slices.Sorted(maps.Values(all)); !slices.Equal(names, want) || len(want) == 0 {
		t.Errorf("the table has %v: expected %v", names, want)
	}
	word := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	for _, f := range All() {
		if !word.MatchString(string(f.Code)) || len(f.What) > 50 || len(f.Exits) == 0 || f.Named == "" || !strings.HasSuffix(f.Cause, ".") || !strings.HasSuffix(f.Cure, ".") {
			t.Errorf("%+v", f)
		}
		if found, ok := Find(string(f.Code)); !ok || found.What != f.What {
			t.Errorf("Find(%q) = %+v, %v", f.Code, found, ok)
		}
	}
	given := map[string]bool{}
	use := regexp.MustCompile(`\bcodes\.([A-Z]\w*)\b`)
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range use.FindAllSubmatch(text, -1) {
			given[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, code := range all {
		if !given[name] && !slices.Contains(kinds(t, root), code) {
			t.Errorf("no error has the code %s", name)
		}
	}
}

// kinds are those of a ring's verdicts, each of which is a code.
func kinds(t *testing.T, root string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ring", "bootstrap", "verdict", "verdict.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\bKind\w+ +Kind = "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
		if _, found := Find(m[1]); !found {
			t.Errorf("the verdict %q is not in the table", m[1])
		}
	}
	return all
}

func TestOf(t *testing.T) {
	cause := errors.New("cause")
	inner := With(Memlock, cause)
	for _, c := range []struct {
		err  error
		want Code
	}{
		{cause, ""}, {inner, Memlock}, {fmt.Errorf("outer: %w", inner), Memlock}, {With(Token, inner), Token}, {errors.Join(cause, inner), Memlock}, {With(Token, nil), ""}, {With("perished", cause), Failed},
	} {
		if got, ok := Of(c.err); got != c.want || ok != (c.want != "") {
			t.Errorf("%v: %q, %v: expected %q", c.err, got, ok, c.want)
		}
	}
	if !errors.Is(inner, cause) || inner.Error() != "cause" {
		t.Errorf("%v is not its cause", inner)
	}
}
