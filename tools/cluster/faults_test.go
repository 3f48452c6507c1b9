package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fleet is a Deployment of servers in a namespace of its own, all at one port, with what finds them.
type fleet struct {
	t                  *testing.T
	namespace, address string
	token              string
}

func newFleet(t *testing.T, namespace string, port int) *fleet {
	t.Helper()
	account := installForDiscovery(t, namespace)
	f := &fleet{t: t, namespace: namespace + "-models", address: fmt.Sprintf("0.0.0.0:%d", port), token: tokenOf(t, namespace, account)}
	newNamespace(t, f.namespace, "privileged")
	return f
}

// own puts the port in the place of that of other tests.
func (f *fleet) own(text string) string {
	_, port, _ := strings.Cut(f.address, ":")
	return strings.ReplaceAll(text, "8000", port)
}

func (f *fleet) scale(n int) {
	f.t.Helper()
	if err := apply(f.t.Context(), f.namespace, []byte(f.own(string(deployment(n))))); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) config(role string) string {
	f.t.Helper()
	return f.own(discoveryConfig(f.t, f.token, role, f.namespace))
}

// addresses are those of the pods that are there.
func (f *fleet) addresses() (all []string) {
	f.t.Helper()
	pods, err := client(f.t).CoreV1().Pods(f.namespace).List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range pods.Items {
		all = append(all, f.own(pods.Items[i].Status.PodIP+":8000"))
	}
	slices.Sort(all)
	return all
}

// incidentsOf returns the series of incidents that page.
func incidentsOf(page string) (lines []string) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "inference_endpoint_incident_start_timestamp_seconds{") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Connections to the API server are cut again and again, and refused while pods go and come: no endpoint is lost or
// doubled, and a cut costs a watch of each resource, and no list.
func TestCutWatches(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "cut", 8001)
	new(output).run(t, "simulate", "--web.listen-address="+f.address)
	type exporter struct {
		*daemon
		*gate
	}
	var exporters []exporter
	f.scale(5)
	for _, role := range []string{"pod", "endpointslice"} {
		g := startGate(t)
		exporters = append(exporters, exporter{startDaemon(t, g.config(f.config(role))), g})
	}
	same := func(e exporter, want []string) string {
		if all, _ := e.endpoints(); !slices.Equal(all, want) {
			return fmt.Sprintf("endpoints %v, pods %v", all, want)
		}
		return ""
	}
	const cuts = 5
	for _, e := range exporters {
		e.wantEndpoints(5)
		want := f.addresses()
		if missing := same(e, want); missing != "" {
			t.Fatal(missing)
		}
		first := e.asked()
		for range cuts {
			before := e.asked()
			e.CloseClientConnections()
			eventually(t, "new watches", func() string {
				if lost := same(e, want); lost != "" {
					t.Error(lost)
				}
				for what, n := range e.asked() {
					if strings.HasPrefix(what, "watch ") && n == before[what] {
						return what
					}
				}
				return ""
			})
		}
		t.Logf("asked %v, after %d cuts %v", first, cuts, e.asked())
		for what, n := range e.asked() {
			if renewed := n - first[what]; strings.HasPrefix(what, "list ") && renewed > 0 || renewed > 2*cuts {
				t.Errorf("%d times %s for %d cuts", renewed, what, cuts)
			}
		}
	}
	for _, e := range exporters {
		e.closed.Store(true)
		e.CloseClientConnections()
	}
	// All pods are others when the API server can be asked again.
	old := f.addresses()
	f.scale(0)
	eventually(t, "the end of the pods", func() string { return strings.Join(f.addresses(), " ") })
	f.scale(4)
	eventually(t, "other pods", func() string {
		if all := f.addresses(); len(all) != 4 || slices.Contains(all, f.own(":8000")) {
			return strings.Join(all, " ")
		}
		return ""
	})
	for _, e := range exporters {
		if lost := same(e, old); lost != "" {
			t.Errorf("while the API server is away: %s", lost)
		}
		e.closed.Store(false)
	}
	for _, e := range exporters {
		e.wantEndpoints(4)
		if wrong := same(e, f.addresses()); wrong != "" {
			t.Error(wrong)
		}
	}
}

// An incident ends with the pods that it is of: nothing of it stays when they are gone, and others begin without one.
// Servers that end with their pods begin none.
func TestIncidentsOfPodsThatGo(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "gone", 8002)
	f.scale(3)
	d := startDaemon(t, f.config("pod")) // nothing listens
	eventually(t, "incidents that page", func() string {
		if lines := incidentsOf(d.page()); len(lines) != 3 {
			return strings.Join(lines, "") + "\n" + d.String()
		}
		return ""
	})
	gone := f.addresses()
	empty := func() {
		t.Helper()
		eventually(t, "no endpoints", func() string {
			all, _ := d.endpoints()
			return strings.Join(all, " ")
		})
	}
	f.scale(0)
	empty()
	page := d.page()
	for _, address := range gone {
		if strings.Contains(page, address) {
			t.Errorf("the page has %s, which is gone", address)
		}
	}
	servers := new(output).run(t, "simulate", "--web.listen-address="+f.address)
	f.scale(3)
	d.wantEndpoints(3)
	if err := servers.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.scale(0)
	empty()
	if lines := incidentsOf(d.page()); len(lines) > 0 {
		t.Errorf("incidents after a scale to 0: %s", lines)
	}
}
