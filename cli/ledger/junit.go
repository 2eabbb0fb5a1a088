package ledger

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jstemmer/go-junit-report/v2/junit"
)

// writeJUnit writes a suite of the cases of each class and section. Names are unique
// within one, since readers keep one case of a name.
func writeJUnit(w io.Writer, run Run, begun time.Time, cases []found, properties [][2]string) error {
	all := junit.Testsuites{Name: "ringcli " + run.Command, Time: seconds(time.Since(begun).Seconds())}
	host, _ := os.Hostname() // or the attribute stays away
	var suites []*junit.Testsuite
	byName := map[string]*junit.Testsuite{}
	taken, times := map[string]int{}, map[string]float64{}
	for _, c := range cases {
		name := strings.Join(strings.Fields("ringcli "+c.class+" "+c.section), " ")
		suite := byName[name]
		if suite == nil {
			suite = &junit.Testsuite{Name: name, ID: len(suites), Hostname: host}
			suite.SetTimestamp(begun.UTC())
			for _, p := range properties {
				suite.AddProperty(p[0], p[1])
			}
			byName[name], suites = suite, append(suites, suite)
		}
		test := junit.Testcase{Name: legible(c.name), Classname: "ringcli." + c.class, Time: seconds(c.seconds)}
		key := name + "\x00" + test.Name
		if taken[key]++; taken[key] > 1 {
			test.Name = fmt.Sprintf("%s (%d)", test.Name, taken[key])
		}
		switch {
		case c.skipped:
			test.Skipped = &junit.Result{Message: legible(c.why)}
		case !c.ok:
			test.Failure = &junit.Result{Message: legible(c.why), Type: c.code, Data: legible(c.detail)}
		}
		suite.AddTestcase(test)
		times[name] += c.seconds
	}
	for _, suite := range suites {
		suite.Time = seconds(times[suite.Name])
		all.AddSuite(*suite)
	}
	if _, err := io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"); err != nil {
		return err
	}
	return all.WriteXML(w)
}

func seconds(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

// legible is text without what XML has no place for (XML 1.0, section 2.2), which CDATA would
// let through.
func legible(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0xFFFE || c == 0xFFFF {
			return '\uFFFD'
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
