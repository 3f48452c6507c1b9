package prober

import (
	"errors"
	"io"
	"strings"
)

// reason splits the text of an error into its innermost cause, which says what
// happened, and what was being done then: "connection refused" and "find out the
// api: nothing answers GET /v1/models: dial tcp 10.0.0.1:8000: connect". The
// first must be read even where the text is cut.
func reason(err error) (what, where string) {
	inner := innermost(err)
	what = inner.Error()
	r, presented := inner.(*redacted) //nolint:errorlint // it is not unwrapped on purpose
	if presented {
		what, where = r.what, r.where
	}
	outer, ok := strings.CutSuffix(err.Error(), inner.Error())
	if !ok { // the text is of another form
		return err.Error(), ""
	}
	outer = strings.TrimSuffix(outer, ": ")
	if outer != "" && where != "" {
		outer += ": "
	}
	return what, outer + where
}

// innermost returns the error that says what happened. A reply with an error
// status is one with its status. That a connection has ended says less than the
// failure that was made of it.
func innermost(err error) error {
	for {
		switch err.(type) { //nolint:errorlint // each error on its own
		case *redacted, *statusError, *schemeError:
			return err
		}
		next := errors.Unwrap(err)
		if f, ok := err.(*failure); next == nil || ok && isEOF(f) {
			return err
		}
		err = next
	}
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// reasonText puts the two parts of a reason together.
func reasonText(what, where string) string {
	if where == "" {
		return what
	}
	return what + " (" + where + ")"
}
