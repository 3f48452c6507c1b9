package discovery

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/inference-exporter/inference_exporter/config"
)

func TestStaticSendsOnceAndEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		up := make(chan []*config.Endpoint, 2)
		done := make(chan struct{})
		go func() {
			defer close(done)
			Static{{Name: "a"}, {Name: "b"}}.Run(ctx, up)
		}()
		synctest.Wait()
		if len(up) != 1 {
			t.Fatalf("sent %d sets, want 1", len(up))
		}
		if set := <-up; len(set) != 2 || set[0].Name != "a" || set[1].Name != "b" {
			t.Errorf("got %v", set)
		}
		cancel()
		<-done
	})
}

func TestStaticEndsUnread(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Static{{Name: "a"}}.Run(ctx, make(chan []*config.Endpoint))
		}()
		synctest.Wait()
		cancel()
		<-done
	})
}
