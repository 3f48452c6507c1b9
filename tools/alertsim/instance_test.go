package main

import "testing"

// Evaluations are 30 s apart; "x" holds, "." does not. The marks of fires are
// those of the evaluations at which an alert begins to fire.
func TestInstanceStep(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		hold, keep int64 // seconds
		holds      string
		fires      string
	}{
		{name: "at once", holds: "..x..", fires: "..!.."},
		{name: "once while it lasts", holds: "xxxx", fires: "!..."},
		{name: "anew without keep", holds: "x.x", fires: "!.!"},
		{name: "for is a time, not a number", hold: 60, holds: "xxxx", fires: "..!."},
		{name: "for begins anew after a gap", hold: 60, holds: "xx.xxx", fires: ".....!"},
		{name: "keep outlasts a gap", keep: 60, holds: "x.x.x", fires: "!...."},
		{name: "keep runs out", keep: 60, holds: "x...x", fires: "!...!"},
		{name: "keep is counted from the end of each gap", keep: 60, holds: "x..x..x", fires: "!......"},
		{name: "keep does not hold what was pending", hold: 30, keep: 300, holds: "x.xx", fires: "...!"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var a instance
			got := ""
			for i, c := range tt.holds {
				if a.step(int64(i+1)*30_000, c == 'x', tt.hold*1000, tt.keep*1000) {
					got += "!"
				} else {
					got += "."
				}
			}
			if got != tt.fires {
				t.Errorf("fires %q, want %q", got, tt.fires)
			}
		})
	}
}
