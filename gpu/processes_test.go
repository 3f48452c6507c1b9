package gpu

import (
	"strings"
	"testing"
)

const (
	containerID = "4f3c1a0b2d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8"
	outerID     = "0000000000000000000000000000000000000000000000000000000000000001"
	podUID      = "2d3f9b5e-1a2b-4c3d-8e9f-a0b1c2d3e4f5"
	podUIDGroup = "2d3f9b5e_1a2b_4c3d_8e9f_a0b1c2d3e4f5"
	staticUID   = "5a1c0d2e3f4a5b6c7d8e9f0a1b2c3d4e"
)

// cgroupFiles are the forms that /proc/PID/cgroup has under the container
// runtimes and both versions of control groups.
func cgroupFiles() []struct{ name, file, container, pod string } {
	return []struct{ name, file, container, pod string }{
		{"v2, containerd, systemd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + podUIDGroup + ".slice/cri-containerd-" + containerID + ".scope\n", containerID, podUID},
		{"v2, containerd, systemd, guaranteed", "0::/kubepods.slice/kubepods-pod" + podUIDGroup + ".slice/cri-containerd-" + containerID + ".scope\n", containerID, podUID},
		{"v2, containerd, cgroupfs", "0::/kubepods/besteffort/pod" + podUID + "/" + containerID + "\n", containerID, podUID},
		{"v2, crio", "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + podUIDGroup + ".slice/crio-" + containerID + ".scope\n", containerID, podUID},
		{"v2, crio with a group within", "0::/kubepods.slice/kubepods-pod" + podUIDGroup + ".slice/crio-" + containerID + ".scope/container\n", containerID, podUID},
		{"v2, the monitor of crio", "0::/kubepods.slice/kubepods-pod" + podUIDGroup + ".slice/crio-conmon-" + containerID + ".scope\n", "", podUID},
		{"v2, docker, systemd", "0::/system.slice/docker-" + containerID + ".scope\n", containerID, ""},
		{"v2, docker, cgroupfs", "0::/docker/" + containerID + "\n", containerID, ""},
		{"v2, podman", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + containerID + ".scope/container\n", containerID, ""},
		{"v2, from another namespace", "0::/../../kubepods-burstable-pod" + podUIDGroup + ".slice/cri-containerd-" + containerID + ".scope\n", containerID, podUID},
		{"v2, own namespace", "0::/\n", "", ""},
		{"v2, no container", "0::/user.slice/user-1000.slice/session-3.scope\n", "", ""},
		{"v2, static pod", "0::/kubepods/burstable/pod" + staticUID + "/" + containerID + "\n", containerID, staticUID},
		{"v2, kind", "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + podUIDGroup + ".slice/cri-containerd-" + containerID + ".scope\n", containerID, podUID},
		{"v2, a container in a container", "0::/docker/" + outerID + "/kubepods/pod" + podUID + "/" + containerID + "\n", containerID, podUID},
		{"v2, systemd in the container", "0::/system.slice/docker-" + containerID + ".scope/init.scope\n", containerID, ""},
		{"v1, docker, cgroupfs", "12:devices:/docker/" + containerID + "\n11:memory:/docker/" + containerID + "\n1:name=systemd:/docker/" + containerID + "\n", containerID, ""},
		{"v1, kubelet, cgroupfs", "11:cpu,cpuacct:/kubepods/burstable/pod" + podUID + "/" + containerID + "\n", containerID, podUID},
		{"v1, containerd with the wrong cgroup driver", "10:memory:/system.slice/containerd.service/kubepods-burstable-pod" + podUIDGroup + ".slice:cri-containerd:" + containerID + "\n", containerID, podUID},
		{"v1, only some lines", "9:rdma:/\n8:memory:/kubepods.slice/kubepods-pod" + podUIDGroup + ".slice/docker-" + containerID + ".scope\n0::/\n", containerID, podUID},
		{"empty", "", "", ""},
		{"not a group file", "hello\n", "", ""},
		{"id too short", "0::/docker/" + containerID[1:] + "\n", "", ""},
		{"id too long", "0::/docker/a" + containerID + "\n", "", ""},
		{"pod without a uid", "0::/podinfo/" + containerID + "\n", containerID, ""},
		{"no end of line", "0::/docker/" + containerID, containerID, ""},
	}
}

func TestParseCgroup(t *testing.T) {
	for _, test := range cgroupFiles() {
		t.Run(test.name, func(t *testing.T) {
			container, pod := parseCgroup(test.file)
			if container != test.container || pod != test.pod {
				t.Errorf("container %q, pod %q; want %q, %q", container, pod, test.container, test.pod)
			}
		})
	}
}

// Whatever the file says, what is found is an id that the file has, and of the
// one form.
func FuzzParseCgroup(f *testing.F) {
	for _, test := range cgroupFiles() {
		f.Add(test.file)
	}
	f.Fuzz(func(t *testing.T, file string) {
		container, pod := parseCgroup(file)
		if container != "" && (len(container) != 64 || strings.Trim(container, "0123456789abcdef") != "" || !strings.Contains(file, container)) {
			t.Errorf("container %q", container)
		}
		if pod == "" {
			return
		}
		if strings.Trim(pod, "0123456789abcdef-") != "" || !strings.Contains(strings.ReplaceAll(file, "_", "-"), pod) {
			t.Errorf("pod %q", pod)
		}
		if dashes := strings.Count(pod, "-"); len(pod)-dashes != 32 || dashes != 0 && dashes != 4 {
			t.Errorf("pod %q", pod)
		}
	})
}
