package tracetest

import (
	"strings"
	"testing"
)

// chromeOf is a file with the events, to which each lacks nothing but what the
// test leaves out.
func chromeOf(events ...string) string {
	return `{"traceEvents":[` + strings.Join(events, ",") + `]}`
}

func TestCheckChrome(t *testing.T) {
	const at = `"pid":0,"tid":1,"name":"n"`
	x := func(ts, dur string) string { return `{"ph":"X","ts":` + ts + `,"dur":` + dur + `,` + at + `}` }
	for name, test := range map[string]struct{ file, want string }{
		"nothing":              {chromeOf(), ""},
		"nested":               {chromeOf(x("0", "10"), x("0", "5"), x("5", "5"), x("6", "0.5"), x("10", "1")), ""},
		"other thread":         {chromeOf(x("0", "10"), `{"ph":"X","ts":5,"dur":10,"pid":0,"tid":2,"name":"n"}`), ""},
		"out of order":         {chromeOf(x("10", "1"), x("0", "1")), ""},
		"arrow":                {chromeOf(x("0", "10"), `{"ph":"s","id":1,"ts":1,`+at+`}`, `{"ph":"f","id":1,"ts":10,`+at+`}`), ""},
		"metadata":             {chromeOf(`{"ph":"M","pid":0,"tid":0,"name":"process_name","args":{"name":"x"}}`, `{"ph":"M","pid":0,"tid":0,"name":"thread_sort_index","args":{"sort_index":1}}`), ""},
		"no JSON":              {`{`, "unexpected EOF"},
		"more":                 {`{"traceEvents":[]} {}`, "something stands behind"},
		"no events":            {`{}`, "no traceEvents"},
		"no ph":                {chromeOf(`{"ts":1,` + at + `}`), "no ph"},
		"no name":              {chromeOf(`{"ph":"i","s":"t","ts":1,"pid":0,"tid":0}`), "no name"},
		"no pid":               {chromeOf(`{"ph":"i","s":"t","ts":1,"tid":0,"name":"n"}`), "no pid"},
		"no tid":               {chromeOf(`{"ph":"i","s":"t","ts":1,"pid":0,"name":"n"}`), "no tid"},
		"no ts":                {chromeOf(`{"ph":"i","s":"t",` + at + `}`), "no ts"},
		"ts is text":           {chromeOf(`{"ph":"i","s":"t","ts":"1",` + at + `}`), "cannot unmarshal string"},
		"pid is text":          {chromeOf(`{"ph":"i","s":"t","ts":1,"pid":"x","tid":0,"name":"n"}`), "cannot unmarshal string"},
		"negative ts":          {chromeOf(x("-1", "5")), "ts is negative"},
		"no dur":               {chromeOf(`{"ph":"X","ts":1,` + at + `}`), "no dur"},
		"negative dur":         {chromeOf(x("1", "-5")), "a negative one"},
		"overlap":              {chromeOf(x("0", "10"), x("5", "10")), "event 1 \"n\" overlaps event 0"},
		"overlap by 1 ns":      {chromeOf(x("0", "10"), x("9.999", "1")), "overlaps"},
		"arrow without id":     {chromeOf(`{"ph":"s","ts":1,` + at + `}`), "without an id"},
		"arrow without end":    {chromeOf(x("0", "10"), `{"ph":"s","id":1,"ts":1,`+at+`}`), "1 s and 0 f"},
		"arrow without start":  {chromeOf(x("0", "10"), `{"ph":"f","id":1,"ts":1,`+at+`}`), "0 s and 1 f"},
		"arrow back":           {chromeOf(x("0", "10"), `{"ph":"s","id":1,"ts":2,`+at+`}`, `{"ph":"f","id":1,"ts":1,`+at+`}`), "ends before its start"},
		"arrow in the air":     {chromeOf(x("0", "10"), `{"ph":"s","id":1,"ts":1,`+at+`}`, `{"ph":"f","id":1,"ts":11,`+at+`}`), "touches no span"},
		"instant of no scope":  {chromeOf(`{"ph":"i","ts":1,` + at + `}`), "scope"},
		"unknown ph":           {chromeOf(`{"ph":"Z","ts":1,` + at + `}`), `unknown ph "Z"`},
		"metadata of no name":  {chromeOf(`{"ph":"M","pid":0,"tid":0,"name":"thread_name"}`), "args have no name"},
		"metadata of no index": {chromeOf(`{"ph":"M","pid":0,"tid":0,"name":"thread_sort_index","args":{"sort_index":"1"}}`), "args have no sort_index"},
		"unknown metadata":     {chromeOf(`{"ph":"M","pid":0,"tid":0,"name":"x"}`), "unknown metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckChrome(strings.NewReader(test.file))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
