package readerstest

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"ringcli/configs"
)

// manifest is the documents of an example, each under its kind.
func manifest(t *testing.T, name string) map[string]string {
	t.Helper()
	for _, e := range configs.Examples() {
		if e.Name != name {
			continue
		}
		found := map[string]string{}
		for document := range strings.SplitSeq(e.Text, "\n---\n") {
			var head struct{ Kind string }
			if err := yaml.Unmarshal([]byte(document), &head); err != nil || found[head.Kind] != "" {
				t.Fatalf("%s: a second %q, %v", name, head.Kind, err)
			}
			found[head.Kind] = document
		}
		return found
	}
	t.Fatalf("there is no example %s", name)
	return nil
}

// decode takes a document as the API's server does that is told to be strict: a field that
// it does not know is an error.
func decode(t *testing.T, document string, into any) {
	t.Helper()
	if document == "" {
		t.Fatalf("there is no %T", into)
	}
	if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
		t.Fatalf("%T: %v", into, err)
	}
}

// reachesDevices fails unless a Pod has what RDMA wants of a node.
func reachesDevices(t *testing.T, pod *corev1.PodSpec, c *corev1.Container) {
	t.Helper()
	if !pod.HostNetwork {
		t.Error("the Pod is not in the node's network")
	}
	s := c.SecurityContext
	if s == nil || s.Capabilities == nil || len(s.Capabilities.Add) != 1 || s.Capabilities.Add[0] != "IPC_LOCK" || s.RunAsUser == nil || *s.RunAsUser != 0 || s.Privileged == nil || !*s.Privileged {
		t.Errorf("it may not lock memory, or not open devices: %+v", s)
	}
	volumes := map[string]corev1.VolumeSource{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v.VolumeSource
	}
	found := false
	for _, m := range c.VolumeMounts {
		v, is := volumes[m.Name]
		if !is {
			t.Errorf("there is no volume %s", m.Name)
		}
		found = found || m.MountPath == "/dev/infiniband" && v.HostPath != nil && v.HostPath.Path == m.MountPath
	}
	if !found {
		t.Error("it has no /dev/infiniband")
	}
}

func TestTheIndexedJobIsTheAPIs(t *testing.T) {
	documents := manifest(t, "kubernetes-job")
	var job batchv1.Job
	var service corev1.Service
	decode(t, documents["Job"], &job)
	decode(t, documents["Service"], &service)
	if len(documents) != 2 || job.APIVersion != "batch/v1" || service.APIVersion != "v1" {
		t.Errorf("%d documents, %s and %s", len(documents), job.APIVersion, service.APIVersion)
	}
	spec, pod := &job.Spec, &job.Spec.Template.Spec
	if spec.CompletionMode == nil || *spec.CompletionMode != batchv1.IndexedCompletion || spec.Completions == nil || spec.Parallelism == nil || *spec.Completions != *spec.Parallelism {
		t.Errorf("no Indexed Job whose ranks all run at once: %+v", spec)
	}
	if pod.RestartPolicy != corev1.RestartPolicyNever || len(pod.Containers) != 1 {
		t.Fatalf("restart policy %s, %d containers", pod.RestartPolicy, len(pod.Containers))
	}
	// Rank 0's name is that of the Job and its index, in the headless Service's domain.
	env := map[string]corev1.EnvVar{}
	for _, e := range pod.Containers[0].Env {
		env[e.Name] = e
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses || service.Spec.Selector["job-name"] != job.Name || pod.Subdomain != service.Name {
		t.Errorf("the Service %+v, and subdomain %s, name no rank", service.Spec, pod.Subdomain)
	}
	if got := env["MASTER_ADDR"].Value; got != job.Name+"-0."+service.Name {
		t.Errorf("rank 0 is at %s", got)
	}
	if from := env["RANK"].ValueFrom; from == nil || from.FieldRef == nil || from.FieldRef.FieldPath != "metadata.annotations['"+batchv1.JobCompletionIndexAnnotation+"']" {
		t.Errorf("the rank comes from %+v", from)
	}
	if env["RINGCLI_WORLD_SIZE"].Value != "2" || *spec.Completions != 2 {
		t.Errorf("%s ranks are told, %d run", env["RINGCLI_WORLD_SIZE"].Value, *spec.Completions)
	}
	reachesDevices(t, pod, &pod.Containers[0])
}

func TestThePreflightIsTheAPIs(t *testing.T) {
	documents := manifest(t, "kubernetes-preflight")
	var set appsv1.DaemonSet
	decode(t, documents["DaemonSet"], &set)
	pod := &set.Spec.Template.Spec
	if len(documents) != 1 || set.APIVersion != "apps/v1" || len(pod.InitContainers) != 1 || len(pod.Containers) != 1 {
		t.Fatalf("%d documents, %s: %+v", len(documents), set.APIVersion, pod)
	}
	if set.Spec.Selector == nil || len(set.Spec.Selector.MatchLabels) == 0 {
		t.Error("it selects nothing")
	}
	for name, value := range set.Spec.Selector.MatchLabels {
		if set.Spec.Template.Labels[name] != value {
			t.Errorf("it does not select its own Pods: %s is %s", name, set.Spec.Template.Labels[name])
		}
	}
	reachesDevices(t, pod, &pod.InitContainers[0])
	for _, c := range []corev1.Container{pod.InitContainers[0], pod.Containers[0]} {
		for _, mount := range c.VolumeMounts {
			if mount.MountPath == "" {
				t.Errorf("%s mounts %s nowhere", c.Name, mount.Name)
			}
		}
	}
}

// What the API does not know is found.
func TestAStrictDecoderFindsTypos(t *testing.T) {
	document := manifest(t, "kubernetes-job")["Job"]
	wrong := strings.Replace(document, "hostNetwork:", "hostNetworks:", 1)
	if wrong == document || yaml.UnmarshalStrict([]byte(wrong), &batchv1.Job{}) == nil {
		t.Error("a field of no meaning was taken")
	}
}
