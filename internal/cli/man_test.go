package cli

import "testing"

func TestRoff(t *testing.T) {
	f := func(plain, want string) {
		t.Helper()
		if got := escape(plain); got != want {
			t.Errorf("%q: got %q, want %q", plain, got, want)
		}
	}
	f("--log.level", `\-\-log.level`)
	f(`a\nb`, `a\enb`)
	f(".TH", `\&.TH`)
	f("'quoted' `code` ~ ^", `\(aqquoted\(aq \(gacode\(ga \(ti \(ha`)

	if got, want := sentences("One. Two: e.g. this. Three."), "One.\nTwo: e.g.\nthis.\nThree.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := `\fBprog\fR \fB[check]\fR \fB\-\-file\fR=\fIFILE\fR \fI[FLAGS]\fR \fIURL\fR`
	if got := usage("prog [check] --file=FILE [FLAGS] URL"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
