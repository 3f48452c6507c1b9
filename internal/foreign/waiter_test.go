package foreign

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stuck hangs where its fields say, whatever the context, until release is closed.
type stuck struct {
	inRequest bool
	release   chan struct{}
}

func (s *stuck) RoundTrip(*http.Request) (*http.Response, error) {
	if s.inRequest {
		<-s.release
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(strings.NewReader("part"), s))}, nil
}

func (s *stuck) Read([]byte) (int, error) {
	<-s.release
	return 0, io.EOF
}

// ask sends a request with a limit and reads the reply.
func ask(rt http.RoundTripper) (body string, err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errors.New("its limit"))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://h", nil)
	if err != nil {
		return "", err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// Requests end with their contexts although what sends them hangs; not all the
// more are left behind, and they are sent again once the other side is well.
func TestWaiter(t *testing.T) {
	for _, inRequest := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			hangs := &stuck{inRequest: inRequest, release: make(chan struct{})}
			w := &waiter{before: before{hangs}}
			for range maxAbandoned {
				body, err := ask(w)
				if err == nil || err.Error() != "its limit" || !inRequest && body != "part" {
					t.Fatalf("in the request: %t: %q, %v", inRequest, body, err)
				}
			}
			if _, err := ask(w); !errors.Is(err, errAbandoned) {
				t.Fatalf("one more: %v", err)
			}
			time.Sleep(abandonAgain)
			if _, err := ask(w); errors.Is(err, errAbandoned) {
				t.Error("none is sent after a while")
			}
			close(hangs.release)
			synctest.Wait()
			if n := w.abandoned.hang.Load(); n != 0 {
				t.Errorf("%d abandoned after all ended", n)
			}
			if body, err := ask(w); body != "part" || err != nil {
				t.Errorf("when it is well: %q, %v", body, err)
			}
		})
	}
}
