package bench

import (
	"strings"
	"testing"

	"ringcli/cli/timing"
)

// What is written is what nccl-tests 2.19.6 writes of the same numbers: the texts are the
// output of its format strings.
func TestNCCLTestsText(t *testing.T) {
	for _, c := range []struct {
		value    float64
		of7, of6 string
	}{
		{0, "   0.00", "  0.00"}, {123.456, " 123.46", "123.46"}, {9999.99, "9999.99", " 10000"}, {9999.996, "10000.0", " 10000"},
		{99999.94, "99999.9", "100000"}, {1234567.4, "1234567", " 1e+06"}, {12345678.9, "1.2e+07", " 1e+07"}, {1e12, "1.0e+12", " 1e+12"},
	} {
		if of7, of6 := ncclTestsFigure(c.value, 7), ncclTestsFigure(c.value, 6); of7 != c.of7 || of6 != c.of6 {
			t.Errorf("%v: %q and %q, want %q and %q", c.value, of7, of6, c.of7, c.of6)
		}
	}
	const columns = "#\n" +
		"#                                                              out-of-place                       in-place          \n" +
		"#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n" +
		"#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         \n"
	if ncclTestsColumns != columns {
		t.Errorf("the columns are\n%swant\n%s", ncclTestsColumns, columns)
	}

	wrong, right, root := uint64(1234567), uint64(0), 3
	one := Measurement{Command: "all-reduce", Bytes: 8589934592, Count: 2147483648, Type: "float32", Op: "sum", Ranks: 4, AlgBW: 3.86, BusBW: 6.76, Time: timing.Times{Mean: 2225678.4}}
	for want, change := range map[string]func(out, in *Measurement){
		"  8589934592    2147483648     float     sum      -1  2225678    3.86    6.76    N/A  2225678    3.86    6.76    N/A\n":        func(*Measurement, *Measurement) {},
		"  8589934592    2147483648     float     sum      -1  2225678    3.86    6.76       0  2225678    3.86    6.76  1.23457e+06\n": func(out, in *Measurement) { out.Wrong, in.Wrong = &right, &wrong },
		"  8589934592     536870912      half    none      -1  2225678    3.86    6.76    N/A  2225678    3.86    6.76    N/A\n":        func(out, in *Measurement) { out.Command, out.Op, out.Type = "all-gather", "", "float16" },
		"  8589934592     715827882  bfloat16     max      -1  2225678    3.86    6.76    N/A  2225678    3.86    6.76    N/A\n": func(out, in *Measurement) {
			out.Command, out.Op, out.Type, out.Ranks = "reduce-scatter", "max", "bfloat16", 3
		},
		"  8589934592    2147483648      int8    none       3  2225678    3.86    6.76    N/A  2225678    3.86    6.76    N/A\n": func(out, in *Measurement) { out.Command, out.Op, out.Type, out.Root = "broadcast", "", "int8", &root },
		"  8589934592    2147483648    double     avg       3  2225678    3.86    6.76    N/A  2225678    3.86    6.76    N/A\n": func(out, in *Measurement) {
			out.Command, out.Op, out.Type, out.Root = "reduce", "avg", "float64", &root
		},
	} {
		row := BenchRow{one, one}
		change(&row.Out, &row.In)
		if got := row.NCCLTests(); got != want {
			t.Errorf("the row is\n%swant\n%s", got, want)
		}
	}

	bad := Measurement{Wrong: &wrong, PerRank: []RankMeasurement{{Wrong: &right}, {Wrong: &wrong}, {Wrong: &wrong}}}
	for want, s := range map[string]BenchSummary{
		"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 4.52531 \n":           {Command: "bench all-reduce", BusBW: 4.525310123},
		"# Out of bounds values : 2 FAILED\n# Avg bus bandwidth    : 0.000517 OK\n":    {Command: "bench all-reduce", BusBW: 0.000517, Floor: 0.0005, Rows: 1},
		"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.23457e+06 FAILED\n": {Command: "bench all-reduce", BusBW: 1234567, Floor: 1e7},
	} {
		if s.Rows > 0 {
			s.countFailed(bad)
		}
		if got, end := s.NCCLTests(), "#\n# Collective test concluded: all_reduce_perf\n#\n\n"; got != want+end {
			t.Errorf("the last lines are\n%swant\n%s", got, want+end)
		}
	}
	if strings.Contains(ncclTestsName(0), "-") {
		t.Error("nccl-tests' programs have no dash in their names")
	}
}
