package ledger

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// record is one as JSON has it.
type record map[string]any

// text is a field as a name or a label shows it; empty if it is not there.
func (r record) text(field string) string {
	switch v := r[field].(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		var parts []string
		for _, each := range v {
			parts = append(parts, record{"": each}.text(""))
		}
		return strings.Join(parts, ",")
	default:
		return fmt.Sprint(v)
	}
}

// number is a field that is one.
func (r record) number(field string) (v float64, is bool) {
	v, is = r[field].(float64)
	return v, is
}

// edge is that of a verdict, if it names one.
func (r record) edge() (from, to int, is bool) {
	edge, _ := r["edge"].(map[string]any)
	a, one := record(edge).number("from")
	b, other := record(edge).number("to")
	return int(a), int(b), one && other
}

// ranks are a field that lists them.
func (r record) ranks(field string) (list []int) {
	all, _ := r[field].([]any)
	for _, each := range all {
		if v, is := each.(float64); is {
			list = append(list, int(v))
		}
	}
	return list
}

// kind is what is made of the records of one type of Go, which the schema describes under
// that name.
type kind struct {
	class string // of the cases; empty: the record's command
	name  string // of the case, with fields as ${field}; empty: there is none
	why   string // the fields that say why it failed, separated by blanks
	code  string // of the failure where the record has none
	// labels of the samples: a field, or label=field.
	labels string
	// samples are of a metric each: metric=field. A field that is a struct has a sample for
	// each of its numbers, with a label "statistic".
	samples string
}

var kinds = map[string]kind{
	"Measurement": {
		name: "${bytes} bytes, ${type} ${op}, ${algorithm} ${protocol}", code: "slow",
		labels:  "operation=command bytes type op algorithm protocol ranks in_place",
		samples: "operation_bus_bandwidth_bytes_per_second=busbw_GBps operation_algorithm_bandwidth_bytes_per_second=algbw_GBps operation_seconds=time_us operation_wrong_elements=wrong",
	},
	"BarrierTime": {
		name:   "${algorithm} ${protocol}",
		labels: "algorithm protocol ranks", samples: "barrier_seconds=time_us",
	},
	"BenchSummary":      {name: "all ${rows} rows", code: "slow"},
	"ComparisonSummary": {name: "all ${sizes} sizes", code: "slow"},
	"Verdict": {
		name: "${ranks} ranks over ${over}", why: "problems", code: "wrong-data",
		samples: "self_check_checks=checks self_check_failed_checks=failed self_check_wrong_elements=wrong self_check_seconds=seconds",
	},
	"P2PResult": {
		name: "${op} of ${bytes} bytes", labels: "op bytes",
		samples: "p2p_bandwidth_bytes_per_second=bw_GBps p2p_seconds=time_us p2p_wrong_elements=wrong",
	},
	"PingResult": {
		name: "rank ${rank} to rank ${peer}, ${side}", labels: "from=rank to=peer side",
		samples: "ping_seconds=rtt_us",
	},
	"PingpongResult": {
		name: "${role} with ${peer}", labels: "role peer device", samples: "pingpong_seconds=rtt_us",
	},
	"Link": {
		class: "link", name: "rank ${from} (${from_host}) to rank ${to} (${to_host})", why: "error", code: "edge",
		labels:  "from to from_host to_host device",
		samples: "link_write_bytes_per_second=write_GBps link_both_ways_bytes_per_second=both_GBps link_latency_seconds=latency_us link_lost_packets=lost link_retransmissions=retransmissions",
	},
	"LinkFinding": {
		name: "${text}", why: "text next", code: "slow",
		labels: "finding culprit confidence from to from_hosts to_hosts", samples: "link_finding_ratio=ratio",
	},
	"LinksVerdict": {labels: "mode", samples: "links_findings=findings links_ruled_out=ruled_out"},
	"Preflight":    {name: "${check} ${of}, ${ranks}", why: "value expected fix", labels: "check of verdict ranks", samples: "preflight_verdict="},
	"PathCheck":    {name: "${check} from rank ${from} to rank ${to}, ${device}", why: "value expected fix", code: "path-fault"},
	"CounterValue": {labels: "from=rank source provider name", samples: "counted_total=value"},
	"Packed":       {name: "${file}"},
	"TuneSummary":  {name: "${points} of ${of} points"},
}

// scales takes a field's unit, which its name ends in, to the base unit that the metric's
// name ends in.
var scales = []struct {
	suffix string
	by     float64
}{{"_us", 1e-6}, {"_GBps", 1e9}, {"_pct", 1e-2}}

// help of each metric, without the prefix that all have.
var help = map[string]string{
	"operation_bus_bandwidth_bytes_per_second":       "Bus bandwidth of a collective, as nccl-tests reckon it.",
	"operation_algorithm_bandwidth_bytes_per_second": "Bytes of a collective's vector by its time.",
	"operation_seconds":                              "Time of a collective over its iterations, by statistic.",
	"operation_wrong_elements":                       "Elements that were not what they must be, of all ranks.",
	"barrier_seconds":                                "Time of a barrier over its iterations, by statistic.",
	"self_check_checks":                              "Checks of the self-check.",
	"self_check_failed_checks":                       "Checks of the self-check that failed.",
	"self_check_wrong_elements":                      "Elements that were not what they must be, in all checks.",
	"self_check_seconds":                             "How long the self-check took.",
	"p2p_bandwidth_bytes_per_second":                 "Bandwidth between two ranks.",
	"p2p_seconds":                                    "Latency between two ranks, by statistic.",
	"p2p_wrong_elements":                             "Elements that were not what they must be.",
	"ping_seconds":                                   "Round trips between neighbours, by statistic.",
	"pingpong_seconds":                               "Round trips of a ping-pong, by statistic.",
	"link_write_bytes_per_second":                    "Bandwidth of WRITEs from a rank to another.",
	"link_both_ways_bytes_per_second":                "Bandwidth of WRITEs while the other way has as many.",
	"link_latency_seconds":                           "Latency of a small WRITE, by statistic.",
	"link_lost_packets":                              "Packets of this run that were lost.",
	"link_retransmissions":                           "Packets of this run that were sent again.",
	"link_finding_ratio":                             "What a culprit has to what it would have by all others; of a lossy one the share of lost packets.",
	"links_findings":                                 "Culprits that were named.",
	"links_ruled_out":                                "Suspects that did well when measured again.",
	"preflight_verdict":                              "A check of the preflight has this verdict.",
	"counted_total":                                  "A counter of a device, a provider or the collectives.",
	"check_success":                                  "Whether a check went well.",
	"checks":                                         "Checks of the run, by result.",
	"edge_success":                                   "Whether an edge carries what one rank sends another, of those that the verdict names.",
	"rank_success":                                   "Whether a rank ended well, of those that this is known of.",
	"failure":                                        "A failure of the run, by its code.",
	"run_success":                                    "Whether the run ended in exit code 0.",
	"run_exit_code":                                  "Exit code of the run.",
	"run_duration_seconds":                           "How long the run took.",
	"run_timestamp_seconds":                          "When the run ended.",
	"build_info":                                     "The program that ran.",
}

// nameOf is the name of a record's case. What is empty is left out, with its comma.
func (k kind) nameOf(r record) string {
	var parts []string
	for part := range strings.SplitSeq(k.name, ", ") {
		if words := strings.Fields(os.Expand(part, r.text)); len(words) > 0 {
			parts = append(parts, strings.Join(words, " "))
		}
	}
	return strings.Join(parts, ", ")
}

// whyOf is why a record is not well, in one line.
func (k kind) whyOf(r record) string {
	var parts []string
	if wrong, is := r.number("wrong"); is && wrong > 0 {
		parts = append(parts, r.text("wrong")+" wrong elements")
	}
	for _, field := range strings.Fields(k.why) {
		text := r.text(field)
		switch {
		case text == "":
		case field == "expected":
			parts = append(parts, "expected "+text)
		default:
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "not well: below what was asked for")
	}
	return strings.Join(parts, ": ")
}

// codeOf is a failure's code.
func (k kind) codeOf(r record) string {
	if code := r.text("code"); code != "" {
		return code
	}
	if wrong, is := r.number("wrong"); is && wrong > 0 {
		return "wrong-data"
	}
	if k.code == "" {
		return "failed"
	}
	return k.code
}

// labelsOf are the labels of a record's samples; those that are empty are left out.
func (k kind) labelsOf(r record) []label {
	var list []label
	for _, each := range strings.Fields(k.labels) {
		name, field, renamed := strings.Cut(each, "=")
		if !renamed {
			field = name
		}
		if text := r.text(field); text != "" {
			list = append(list, label{name, text})
		}
	}
	return list
}

// samplesOf are the samples of a record.
func (k kind) samplesOf(r record) (list []sample) {
	labels := k.labelsOf(r)
	for _, each := range strings.Fields(k.samples) {
		metric, field, _ := strings.Cut(each, "=")
		by := 1.0
		for _, scale := range scales {
			if strings.HasSuffix(field, scale.suffix) {
				by = scale.by
			}
		}
		switch v := r[field].(type) {
		case float64:
			list = append(list, sample{metric, labels, v * by})
		case map[string]any:
			for _, statistic := range slices.Sorted(maps.Keys(v)) {
				if each, is := v[statistic].(float64); is {
					list = append(list, sample{metric, append(slices.Clone(labels), label{"statistic", statistic}), each * by})
				}
			}
		default:
			if field == "" { // it is there
				list = append(list, sample{metric, labels, 1})
			}
		}
	}
	return list
}
