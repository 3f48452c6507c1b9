// Package cloudauth gets the short-lived credentials that clouds give to what runs in
// them: AWS credentials to sign with, and tokens of Google Cloud and Azure.
package cloudauth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
)

// timeout limits one attempt to get credentials.
const timeout = 30 * time.Second

// Pool has one source for all that use the same settings, so that a thousand endpoints
// ask the cloud once. It is safe for concurrent use; the zero value is ready.
type Pool struct {
	mu      sync.Mutex
	tokens  map[Token]*tokenSource
	signers map[AWS]*awsSource
}

// Error is a failure to get credentials. Its text does not repeat what a server answered.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// failure makes an *Error of why there are no credentials.
func failure(what string, err error) error {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // its text quotes the reply
		err = fmt.Errorf("the token server answered %q", e.Response.Status)
	}
	return &Error{fmt.Errorf("get %s: %w", what, err)}
}

// source gets a value once for all that wait for it. What hangs is waited for by
// nobody whose context has ended, and not begun a second time.
type source[T any] struct {
	group singleflight.Group
	get   func(context.Context) (T, error)
}

func (s *source[T]) wait(ctx context.Context) (v T, err error) {
	done := s.group.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return s.get(ctx)
	})
	select {
	case r := <-done:
		v, _ = r.Val.(T)
		return v, r.Err
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}
