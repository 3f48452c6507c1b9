package headlimit

import (
	"errors"
	"testing"
)

func TestLimit(t *testing.T) {
	var l Limit
	if err := l.Read(2 * Max); err != nil {
		t.Errorf("nothing is counted yet: %v", err)
	}
	l.Begin()
	if err := l.Read(Max - 1); err != nil {
		t.Errorf("within the limit: %v", err)
	}
	for range 3 {
		if err := l.Read(1); !errors.Is(err, ErrTooLong) {
			t.Errorf("past the limit: %v", err)
		}
	}
	l.Begin()
	l.End()
	if err := l.Read(2 * Max); err != nil {
		t.Errorf("the body is not counted: %v", err)
	}
}
