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

	var b roff
	b.text("One. Two: e.g. this. Three.")
	b.macro("SH", `A "B"`)
	b.usage("prog [check] --file=FILE [FLAGS] URL")
	want := "One.\nTwo: e.g.\nthis.\nThree.\n" + `.SH "A \(dqB\(dq"` + "\n" +
		`\fBprog\fR \fB[check]\fR \fB\-\-file\fR=\fIFILE\fR \fI[FLAGS]\fR \fIURL\fR` + "\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
