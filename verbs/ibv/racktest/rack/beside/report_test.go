//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"
)

func TestSummaryIsOfRounds(t *testing.T) {
	// Between the rounds the machine was ten times as fast: ratios are each round's.
	s := summarize(floorBytes, []round{
		{perftestBW: 100, ibvBW: 80, softBW: 40, perftestLat: 10, ibvLat: 20, softLat: 10},
		{perftestBW: 1000, ibvBW: 900, softBW: 900, perftestLat: 1, ibvLat: 1, softLat: 2},
		{perftestBW: 100, ibvBW: 95, softBW: 190, perftestLat: 10, ibvLat: 5, softLat: 5},
	})
	bw := s.Bandwidth
	if bw.Perftest != 100 || bw.IBV != 95 || bw.Soft != 190 || bw.IBVByPerftest != (Spread{0.9, 0.8, 0.95}) || bw.SoftByIBV != (Spread{1, 0.5, 2}) {
		t.Errorf("%+v", bw)
	}
	if l := s.Latency; l.IBVByPerftest != (Spread{1, 0.5, 2}) {
		t.Errorf("%+v", l)
	}
	if got := spread([]round{{ibvBW: 1}, {ibvBW: 2}}, func(r round) float64 { return r.ibvBW }).Median; got != 1.5 {
		t.Errorf("the median of 1 and 2 is %g", got)
	}
	sizes := []Size{{Bytes: 64}, s}
	if err := verdict(sizes, 0.9); err != nil {
		t.Error(err)
	}
	if !errors.Is(verdict(sizes, 0.91), errSlow) {
		t.Error("below the floor, and no error")
	}
}

func TestFigures(t *testing.T) {
	const bw = ` #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      600              86.44              82.46  		   0.001319
`
	const lat = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 64      200          811.10         5190.20      1574.66    	       1632.10     	200.00		3000.00			5190.20
`
	if f, err := perftestFigure("ib_write_bw", 65536, bw); err != nil || f != 82.46 {
		t.Error(f, err)
	}
	if f, err := perftestFigure("ib_write_lat", 64, lat); err != nil || f != 1574.66 {
		t.Error(f, err)
	}
	if f, err := perftestFigure("ib_write_bw", 64, bw); err == nil {
		t.Errorf("another size's: %g", f)
	}
	const line = `{"command":"bench p2p","ok":true,"op":"WRITE","bytes":65536,"bw_GBps":0.0625,"time_us":{"p50":3237.887},"wrong":0}` + "\n"
	if bw, lat, err := ringcliFigures(line, 65536); err != nil || bw != 62.5 || lat != 3237.887 {
		t.Error(bw, lat, err)
	}
	for _, bad := range []string{"", "text\n", strings.Replace(line, "true", "false", 1), strings.Replace(line, "WRITE", "READ", 1)} {
		if _, _, err := ringcliFigures(bad, 65536); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
