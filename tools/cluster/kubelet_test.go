package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// kubelet runs the pods of a namespace that kwok leaves alone, those with the annotation kubelet: each has an address of
// its own, at which a server listens for as long as it would. The annotations start and drain are how long it loads
// its model, with the pod not ready, and how long it takes to end, in which it accepts nothing.
type kubelet struct {
	namespace string
	client    *kubernetes.Clientset
	simulator http.Handler

	mu     sync.Mutex
	pods   map[types.UID]*podServer
	probes map[string][]time.Time // by who asks, the first part of the path, and by pod
}

// podServer is the server in a pod.
type podServer struct {
	address        string
	started, ended time.Time
	server         *http.Server // nil while it does not listen
}

// kubeletPort is that of the servers in its pods: no other test listens at it at all addresses.
const kubeletPort = 8100

// lastPod numbers the pods of all kubelets.
var lastPod atomic.Int64

// unreadyAfter is how long the readiness probe of a pod takes to notice that its server ends.
const unreadyAfter = 10 * time.Second

// startKubelet starts it until the end of the test.
func startKubelet(t *testing.T, namespace string) *kubelet {
	t.Helper()
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	new(output).run(t, "simulate", "--web.listen-address="+address)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.FlushInterval = -1
	k := &kubelet{namespace: namespace, client: client(t), simulator: proxy, pods: map[types.UID]*podServer{}, probes: map[string][]time.Time{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			k.sync(ctx) // an API server that restarts is asked again
			time.Sleep(200 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		for _, p := range k.pods {
			p.close()
		}
	})
	return k
}

func (p *podServer) close() {
	if p.server != nil {
		_ = p.server.Close()
		p.server = nil
	}
}

// sync brings each pod one step on.
func (k *kubelet) sync(ctx context.Context) {
	pods, err := k.client.CoreV1().Pods(k.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if _, ours := pod.Annotations["kubelet"]; ours && pod.Spec.NodeName != "" {
			k.step(ctx, pod)
		}
	}
}

func (k *kubelet) step(ctx context.Context, pod *corev1.Pod) {
	after := func(begin time.Time, annotation string) bool {
		d, _ := time.ParseDuration(pod.Annotations[annotation]) // without one at once
		return time.Since(begin) >= d
	}
	p := k.server(pod.UID)
	ready := corev1.ConditionFalse
	switch {
	case pod.DeletionTimestamp == nil && p.server == nil && p.ended.IsZero() && after(p.started, "start"):
		p.server = k.serve(pod.Name, p.address)
	case pod.DeletionTimestamp != nil && p.ended.IsZero():
		p.ended = time.Now()
		p.close()
	case pod.DeletionTimestamp != nil && after(p.ended, "drain"):
		now := int64(0)
		_ = k.client.CoreV1().Pods(k.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		return
	}
	if p.server != nil || !p.ended.IsZero() && time.Since(p.ended) < unreadyAfter {
		ready = corev1.ConditionTrue
	}
	k.report(ctx, pod, p.address, ready)
}

// server returns that of a pod.
func (k *kubelet) server(pod types.UID) *podServer {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pods[pod]
	if p == nil {
		n := lastPod.Add(1)
		p = &podServer{address: fmt.Sprintf("10.244.%d.%d", 200+n/250, 1+n%250), started: time.Now()}
		k.pods[pod] = p
	}
	return p
}

// report writes the status of a pod, where it differs.
func (k *kubelet) report(ctx context.Context, pod *corev1.Pod, address string, ready corev1.ConditionStatus) {
	if len(pod.Status.Conditions) > 0 && pod.Status.PodIP == address && readyOf(pod) == ready {
		return
	}
	now := metav1.Now()
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	pod.Status.Conditions = nil
	for _, name := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status := ready
		if name == corev1.PodScheduled || name == corev1.PodInitialized {
			status = corev1.ConditionTrue
		}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: name, Status: status, LastTransitionTime: now})
	}
	_, _ = k.client.CoreV1().Pods(k.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}) // else at the next step
}

func readyOf(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return ""
}

// serve listens at the address of a pod and passes all on to the simulator, without the first part of the path.
func (k *kubelet) serve(pod, address string) *http.Server {
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, kubeletPort))
	if err != nil {
		panic(err) // addresses of pods are local here, and no two have one
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if r.Method == http.MethodPost {
			k.mu.Lock()
			k.probes[who+" "+pod] = append(k.probes[who+" "+pod], time.Now())
			k.mu.Unlock()
		}
		r.URL.Path = "/" + rest
		k.simulator.ServeHTTP(w, r)
	})}
	go func() { _ = s.Serve(l) }()
	return s
}

// crash has the server of a pod end, with nobody to notice it.
func (k *kubelet) crash(t *testing.T, name string) {
	t.Helper()
	pod, err := k.client.CoreV1().Pods(k.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.pods[pod.UID].server.Close()
}

// asked returns when somebody probed each pod.
func (k *kubelet) asked(who string) map[string][]time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[string][]time.Time{}
	for name, times := range k.probes {
		if pod, ok := strings.CutPrefix(name, who+" "); ok {
			all[pod] = slices.Clone(times)
		}
	}
	return all
}

// ready returns the pods with a prefix that are ready and do not end, by name.
func (k *kubelet) ready(t *testing.T, prefix string) (names []string) {
	t.Helper()
	pods, err := k.client.CoreV1().Pods(k.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && readyOf(pod) == corev1.ConditionTrue && strings.HasPrefix(pod.Name, prefix+"-") {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}
