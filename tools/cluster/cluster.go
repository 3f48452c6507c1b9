// Package cluster runs a Kubernetes control plane of Kubernetes' own parts, with nodes and pods without containers by kwok,
// and holds the chart, the manifests and discovery against it.
package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Programs are the paths of the control plane, as command control builds it, and of kwok.
type Programs struct {
	Control, Kwok string
	// Stages is the folder of kwok's own stages: what becomes of nodes and pods.
	Stages string
}

// podCIDR are the addresses of pods. In the network of a stand they are local, so that a server which listens at
// every address answers for each pod.
const podCIDR = "10.244.0.0/16"

// adminToken identifies the administrator of a cluster that ends with its test.
const adminToken = "admin"

// Cluster is a running control plane. It must be stopped.
type Cluster struct {
	Admin *rest.Config // may do everything
	// Kubeconfig is a file for the administrator, CA one with the certificate of the API server.
	Kubeconfig, CA string

	programs Programs
	folder   string
	etcd     string // its URL
	port     int    // of the API server
	parts    map[string]*exec.Cmd
}

// Start starts a control plane that keeps its files in a folder, with a number of nodes, and waits until it is ready.
func Start(ctx context.Context, p Programs, folder string, nodes int) (*Cluster, error) {
	c := &Cluster{programs: p, folder: folder, parts: map[string]*exec.Cmd{}}
	if err := c.start(ctx, nodes); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, nodes int) error {
	if err := c.prepare(); err != nil {
		return err
	}
	steps := []func(context.Context) error{
		c.startEtcd, c.StartAPIServer, c.startControllers, c.startScheduler, c.startKwok,
		func(ctx context.Context) error { return c.addNodes(ctx, nodes) },
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) file(name string) string { return filepath.Join(c.folder, name) }

// prepare writes the key of service accounts, the token of the administrator, and what names them.
func (c *Cluster) prepare() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key: %w", err)
	}
	ca, cert, certKey, err := newCertificate()
	if err != nil {
		return err
	}
	stages := []byte("kind: KwokConfiguration\napiVersion: config.kwok.x-k8s.io/v1alpha1\noptions: {manageAllNodes: true, podPlayStageParallelism: 8, nodePlayStageParallelism: 4, nodeLeaseParallelism: 4,\n" +
		"  nodeLeaseDurationSeconds: 40, enablePodsOnNodeSyncStreamWatch: true, cidr: " + podCIDR + ",\n" +
		"  disregardStatusWithAnnotationSelector: kubelet=test}\n") // of pods that a test itself runs
	for _, name := range []string{"node/fast/node-initialize.yaml", "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml", "pod/fast/pod-ready.yaml", "pod/fast/pod-complete.yaml", "pod/fast/pod-delete.yaml"} {
		stage, err := os.ReadFile(filepath.Join(c.programs.Stages, name))
		if err != nil {
			return fmt.Errorf("read a stage of kwok: %w", err)
		}
		stages = append(append(stages, "---\n"...), stage...)
	}
	files := map[string][]byte{
		"ca.crt": ca, "apiserver.crt": cert, "apiserver.key": certKey,
		"sa.key":   pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		"tokens":   []byte(adminToken + ",admin,admin,system:masters\n"),
		"kwok.yml": stages,
	}
	for name, data := range files {
		if err := os.WriteFile(c.file(name), data, 0o600); err != nil {
			return fmt.Errorf("prepare the cluster: %w", err)
		}
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	c.port, c.etcd = ports[0], fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	c.CA = c.file("ca.crt")
	c.Admin = &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", c.port), BearerToken: adminToken, QPS: 500, Burst: 1000,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.CA},
	}
	c.Kubeconfig = c.file("kubeconfig")
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: c.Admin.Host, CertificateAuthority: c.CA}
	config.AuthInfos["admin"] = &api.AuthInfo{Token: adminToken}
	config.Contexts["c"] = &api.Context{Cluster: "c", AuthInfo: "admin"}
	config.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*config, c.Kubeconfig); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports[2])
	c.parts["etcd"] = exec.Command(c.programs.Control, "etcd", "--name=c", "--data-dir="+c.file("etcd"),
		"--listen-client-urls="+c.etcd, "--advertise-client-urls="+c.etcd, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=c="+peer, "--unsafe-no-fsync", "--log-level=error")
	return nil
}

// newCertificate returns an authority, and a certificate of it for the loopback with its key, in PEM.
func newCertificate() (ca, cert, key []byte, err error) {
	issuerKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a key: %w", err)
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make a key: %w", err)
	}
	issuer := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "apiserver"}, NotAfter: issuer.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, issuer, issuer, issuerKey.Public(), issuerKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make the authority: %w", err)
	}
	certDER, err := x509.CreateCertificate(rand.Reader, server, issuer, own.Public(), issuerKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make the certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("encode the key: %w", err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return block("CERTIFICATE", caDER), block("CERTIFICATE", certDER), block("EC PRIVATE KEY", keyDER), nil
}

// freePorts returns ports of the loopback that nobody listens at.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// run starts a part, whose output goes to a file with its name.
func (c *Cluster) run(name string, cmd *exec.Cmd) error {
	log, err := os.OpenFile(c.file(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	c.parts[name] = cmd
	return nil
}

func (c *Cluster) startEtcd(context.Context) error { return c.run("etcd", c.parts["etcd"]) }

// StartAPIServer starts the API server and waits until it is ready: at the beginning, or after StopAPIServer.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	err := c.run("apiserver", exec.Command(c.programs.Control, "apiserver", "--etcd-servers="+c.etcd,
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(c.port), "--tls-cert-file="+c.file("apiserver.crt"), "--tls-private-key-file="+c.file("apiserver.key"), "--cert-dir="+c.file("certs"), "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none",
		"--authorization-mode=Node,RBAC", "--token-auth-file="+c.file("tokens"), "--service-cluster-ip-range=10.0.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file="+c.file("sa.key"),
		"--service-account-key-file="+c.file("sa.key"), "--allow-privileged=true", "--max-requests-inflight=2000"))
	if err != nil {
		return err
	}
	return c.wait(ctx, "the API server", func(ctx context.Context, all *kubernetes.Clientset) error {
		_, err := all.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

// StopAPIServer ends the API server, which cuts every watch.
func (c *Cluster) StopAPIServer() error { return c.stop("apiserver") }

func (c *Cluster) startControllers(context.Context) error {
	return c.run("controller-manager", exec.Command(c.programs.Control, "controller-manager", "--kubeconfig="+c.Kubeconfig,
		"--service-account-private-key-file="+c.file("sa.key"), "--root-ca-file="+c.CA, "--use-service-account-credentials=true",
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000"))
}

func (c *Cluster) startScheduler(context.Context) error {
	return c.run("scheduler", exec.Command(c.programs.Control, "scheduler", "--kubeconfig="+c.Kubeconfig,
		"--authentication-kubeconfig="+c.Kubeconfig, "--authorization-kubeconfig="+c.Kubeconfig, "--leader-elect=false", "--secure-port=0"))
}

func (c *Cluster) startKwok(context.Context) error {
	return c.run("kwok", exec.Command(c.programs.Kwok, "--kubeconfig="+c.Kubeconfig, "--config="+c.file("kwok.yml")))
}

// addNodes adds nodes that kwok runs, each with room for 2,500 pods, and waits until they are ready.
func (c *Cluster) addNodes(ctx context.Context, n int) error {
	all, err := kubernetes.NewForConfig(c.Admin)
	if err != nil {
		return err
	}
	for i := range n {
		room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("10Ti"), corev1.ResourcePods: resource.MustParse("2500")}
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:        fmt.Sprintf("node-%d", i),
				Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
				Labels:      map[string]string{"kubernetes.io/hostname": fmt.Sprintf("node-%d", i), "kubernetes.io/os": "linux", "nvidia.com/gpu.present": "true"},
			},
			Status: corev1.NodeStatus{Allocatable: room, Capacity: room},
		}
		if _, err := all.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("add a node: %w", err)
		}
	}
	return c.wait(ctx, "the nodes", func(ctx context.Context, all *kubernetes.Clientset) error {
		nodes, err := all.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for i := range nodes.Items {
			for _, condition := range nodes.Items[i].Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready < n {
			return fmt.Errorf("%d of %d are ready", ready, n)
		}
		return nil
	})
}

// patience is how long something may take that must come.
const patience = 5 * time.Minute

// wait waits until something is so.
func (c *Cluster) wait(ctx context.Context, what string, is func(context.Context, *kubernetes.Clientset) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		all, err := kubernetes.NewForConfig(c.Admin) // its certificate may not be there yet
		if err == nil {
			err = is(ctx, all)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// stop ends a part and waits for its end.
func (c *Cluster) stop(name string) error {
	cmd := c.parts[name]
	if cmd == nil || cmd.Process == nil {
		return nil
	}
	delete(c.parts, name)
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", name, err)
	}
	_ = cmd.Wait() // its exit status is that of a kill
	return nil
}

// Stop ends all parts.
func (c *Cluster) Stop() error {
	var errs []error
	for _, name := range []string{"kwok", "scheduler", "controller-manager", "apiserver", "etcd"} {
		errs = append(errs, c.stop(name))
	}
	return errors.Join(errs...)
}
