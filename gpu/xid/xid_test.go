package xid

import (
	"regexp"
	"slices"
	"testing"
)

// The numbers, the driver's names of two and the classes are those of NVIDIA's catalogue: what is to be reset there is fatal here, and
// errors with fatal and other sub-codes are not.
func TestXIDs(t *testing.T) {
	if got, want := Pattern(Fatal), "46|48|62|64|74|79|95|119|120|140|143"; got != want {
		t.Errorf("fatal are %s, want %s", got, want)
	}
	if got, want := Pattern(Depends), "144|145|146|147|148|149|150|154"; got != want {
		t.Errorf("by the sub-code are %s, want %s", got, want)
	}
	if got := Pattern(Contained) + " " + Pattern(Program); got != "94 13|31|43" {
		t.Errorf("contained, and of programs: %s", got)
	}
	last := uint64(0)
	for _, x := range All() {
		if x.Number <= last || !slices.Contains(Classes(), x.Class) || x.Meaning == "" || !regexp.MustCompile(`^[A-Z0-9_]+$`).MatchString(x.Name) {
			t.Errorf("%+v", x)
		}
		if x.Action == "RESET_GPU" && x.Class != Fatal {
			t.Errorf("%d is reset and not fatal", x.Number)
		}
		last = x.Number
	}
	if Meaning(79) != "the GPU fell off the bus" || Meaning(1) != "" {
		t.Errorf("79: %q, 1: %q", Meaning(79), Meaning(1))
	}
}
