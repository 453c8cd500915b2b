package manifests

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// templates returns the templates of the pods that objects make, by the objects' names.
func templates(objects []object) map[string]corev1.PodTemplateSpec {
	all := make(map[string]corev1.PodTemplateSpec)
	for _, o := range objects {
		switch o := o.Object.(type) {
		case *appsv1.StatefulSet:
			all[o.Name] = o.Spec.Template
		case *appsv1.Deployment:
			all[o.Name] = o.Spec.Template
		case *batchv1.CronJob:
			all[o.Name] = o.Spec.JobTemplate.Spec.Template
		case *batchv1.Job:
			all[o.Name] = o.Spec.Template
		}
	}
	return all
}

// refusals returns why the standard "restricted" refuses a pod.
func refusals(t *testing.T, pod corev1.PodTemplateSpec) (all []string) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			all = append(all, result.ForbiddenReason+": "+result.ForbiddenDetail)
		}
	}
	return all
}

// TestPodsAreRestricted checks that the pod security standard "restricted" takes all pods. It
// also checks what that standard leaves open.
func TestPodsAreRestricted(t *testing.T) {
	count := 0
	for _, name := range []string{"badger.yaml", "restore.yaml", "etcd.yaml"} {
		for pod, template := range templates(manifest(t, name)) {
			count++
			if got := refusals(t, template); len(got) > 0 {
				t.Errorf("%s: %s is refused: %q", name, pod, got)
			}
			if automount := template.Spec.AutomountServiceAccountToken; automount == nil || *automount {
				t.Errorf("%s: %s has a token of the API server", name, pod)
			}
			for _, container := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
				if readOnly := container.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
					t.Errorf("%s: %s can write to its image", name, pod)
				}
				if container.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s: %s has no limit of memory", name, pod)
				}
			}
			template.Spec.Containers[0].SecurityContext.Capabilities = nil
			if got := refusals(t, template); len(got) != 1 {
				t.Errorf("%s: %s with all capabilities is refused for %q, want one reason", name, pod, got)
			}
		}
	}
	if count != 4 {
		t.Errorf("found %d pods, want 4", count)
	}
}

// TestObjectsFitTogether checks what no server checks. Selectors match pods, and ports exist.
// Volumes and configurations that pods name are in the manifests.
func TestObjectsFitTogether(t *testing.T) {
	for name, objects := range map[string][]object{
		"badger.yaml and restore.yaml": append(append(manifest(t, "badger.yaml"), manifest(t, "restore.yaml")...), manifest(t, "ingress.yaml")...),
		"etcd.yaml":                    manifest(t, "etcd.yaml"),
	} {
		pods := templates(objects)
		// matching returns the pod that a selector matches, and fails unless that is one.
		matching := func(what string, selector *metav1.LabelSelector) corev1.PodTemplateSpec {
			t.Helper()
			parsed, err := metav1.LabelSelectorAsSelector(selector)
			if err != nil {
				t.Fatal(err)
			}
			var found []corev1.PodTemplateSpec
			for _, pod := range pods {
				if parsed.Matches(labels.Set(pod.Labels)) {
					found = append(found, pod)
				}
			}
			if len(found) != 1 {
				t.Fatalf("%s: %s matches %d kinds of pods, want one", name, what, len(found))
			}
			return found[0]
		}
		available := map[string]bool{"Secret presets-etcd": true} // the operator makes it
		for _, o := range objects {
			available[o.kind.Kind+" "+o.name] = true
			if set, ok := o.Object.(*appsv1.StatefulSet); ok {
				for _, claim := range set.Spec.VolumeClaimTemplates {
					for n := range *set.Spec.Replicas {
						available[fmt.Sprintf("PersistentVolumeClaim %s-%s-%d", claim.Name, set.Name, n)] = true
					}
				}
			}
		}
		for _, o := range objects {
			switch o := o.Object.(type) {
			case *corev1.Service:
				pod := matching("the service", &metav1.LabelSelector{MatchLabels: o.Spec.Selector})
				for _, port := range o.Spec.Ports {
					if !slices.Contains(ports(pod), port.TargetPort.String()) {
						t.Errorf("%s: the service sends to port %s, and the pod has %q", name, port.TargetPort.String(), ports(pod))
					}
				}
			case *networkingv1.Ingress:
				backend := o.Spec.Rules[0].HTTP.Paths[0].Backend.Service
				if !slices.ContainsFunc(objects, func(other object) bool {
					service, ok := other.Object.(*corev1.Service)
					return ok && service.Name == backend.Name && service.Spec.Ports[0].Name == backend.Port.Name
				}) {
					t.Errorf("%s: the ingress sends to %v, which is not there", name, backend)
				}
			case *policyv1.PodDisruptionBudget:
				matching("the disruption budget", o.Spec.Selector)
			case *networkingv1.NetworkPolicy:
				pod := matching("network policy "+o.Name, &o.Spec.PodSelector)
				for _, rule := range o.Spec.Ingress {
					for _, port := range rule.Ports {
						if !slices.Contains(ports(pod), port.Port.String()) {
							t.Errorf("%s: the network policy opens port %s, and the pod has %q", name, port.Port.String(), ports(pod))
						}
					}
				}
			}
		}
		for pod, template := range pods {
			for _, volume := range template.Spec.Volumes {
				need := ""
				switch {
				case volume.ConfigMap != nil:
					need = "ConfigMap " + volume.ConfigMap.Name
				case volume.Secret != nil:
					need = "Secret " + volume.Secret.SecretName
				case volume.PersistentVolumeClaim != nil:
					need = "PersistentVolumeClaim " + volume.PersistentVolumeClaim.ClaimName
				}
				if need != "" && !available[need] {
					t.Errorf("%s: %s needs %s, which is not there", name, pod, need)
				}
			}
			if affinity := template.Spec.Affinity; affinity != nil {
				for _, term := range affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
					matching("the affinity of "+pod, term.LabelSelector)
				}
				for _, term := range affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
					matching("the affinity of "+pod, term.PodAffinityTerm.LabelSelector)
				}
			}
		}
	}
}

// TestSharedVolumes checks that all pods that mount the same claim have the same SELinux level.
// The runtime labels a volume with the level of the pod that mounts it. Without one in the
// manifest each pod gets a random one.
func TestSharedVolumes(t *testing.T) {
	levels := make(map[string]map[string]string) // by the claim and the pod
	mount := func(claim, pod string, template corev1.PodTemplateSpec) {
		if levels[claim] == nil {
			levels[claim] = make(map[string]string)
		}
		levels[claim][pod] = ""
		if options := template.Spec.SecurityContext.SELinuxOptions; options != nil {
			levels[claim][pod] = options.Level
		}
	}
	objects := append(manifest(t, "badger.yaml"), manifest(t, "restore.yaml")...)
	for pod, template := range templates(objects) {
		for _, volume := range template.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				mount(volume.PersistentVolumeClaim.ClaimName, pod, template)
			}
		}
	}
	for _, o := range objects {
		if set, ok := o.Object.(*appsv1.StatefulSet); ok {
			for _, claim := range set.Spec.VolumeClaimTemplates {
				mount(fmt.Sprintf("%s-%s-0", claim.Name, set.Name), set.Name, set.Spec.Template)
			}
		}
	}
	// A level with two categories keeps the volume from other pods.
	private := regexp.MustCompile(`^s0:c\d+,c\d+$`)
	for claim, want := range map[string]int{"data-presets-0": 3, "presets-backups": 2} {
		pods := levels[claim]
		distinct := slices.Compact(slices.Sorted(maps.Values(pods)))
		if len(pods) != want || len(distinct) != 1 || !private.MatchString(distinct[0]) {
			t.Errorf("the pods that mount %s have the SELinux levels %v, want %d pods with the same", claim, pods, want)
		}
	}
}

// duration returns the value of a global option of a Caddyfile, zero without it.
func duration(t *testing.T, caddyfile, option string) time.Duration {
	t.Helper()
	_, value, ok := strings.Cut(caddyfile, "\n\t"+option+" ")
	if !ok {
		return 0
	}
	value, _, _ = strings.Cut(value, "\n")
	d, err := time.ParseDuration(value)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestProbes checks that a pod is ready while its store can be read. It is restarted only if
// its process does not answer. The pod's Caddyfile serves both paths. A pod has time to stop.
func TestProbes(t *testing.T) {
	for _, name := range []string{"badger.yaml", "etcd.yaml"} {
		objects := manifest(t, name)
		caddyfile := ""
		for _, o := range objects {
			if m, ok := o.Object.(*corev1.ConfigMap); ok {
				caddyfile = m.Data["Caddyfile"]
			}
		}
		pod := templates(objects)["presets"].Spec
		delay, grace := duration(t, caddyfile, "shutdown_delay"), duration(t, caddyfile, "grace_period")
		if limit := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; delay == 0 || grace == 0 || limit < delay+grace+10*time.Second {
			t.Errorf("%s: the pod is killed after %v, want 10 s more than the delay of %v and the grace period of %v", name, limit, delay, grace)
		}
		container := pod.Containers[0]
		for probe, want := range map[string]struct {
			*corev1.Probe
			port, served string
		}{
			"readiness": {container.ReadinessProbe, "http", "health %s\n"},
			"liveness":  {container.LivenessProbe, "metrics", "respond %s 200\n"},
			"startup":   {container.StartupProbe, "metrics", "respond %s 200\n"},
		} {
			get := want.HTTPGet
			if get == nil || get.Port.String() != want.port || !strings.Contains(caddyfile, fmt.Sprintf(want.served, get.Path)) {
				t.Errorf("%s: the %s probe asks %+v, which the Caddyfile does not serve on port %s:\n%s", name, probe, get, want.port, caddyfile)
			}
		}
	}
}

// extension returns the first document of a file in ops/kubernetes whose kind the API server itself does
// not have. Fields that v lacks are errors.
func extension(t *testing.T, name string, v any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ops", "kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n---\n")
	if err := yaml.UnmarshalStrict([]byte(first), v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestPodMonitor checks that the monitor for the operator of Prometheus finds the server's pods and
// their port. TestKubernetesScrape of e2e tests the same labels with a Prometheus.
func TestPodMonitor(t *testing.T) {
	var monitor struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta
		Spec            struct {
			Selector            metav1.LabelSelector
			PodMetricsEndpoints []struct {
				Port, Interval string
				Relabelings    []struct {
					TargetLabel, Replacement string
					SourceLabels             []string
				}
			}
		}
	}
	extension(t, "monitoring.yaml", &monitor)
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil || monitor.Kind != "PodMonitor" || monitor.Metadata.Namespace != "presets" || len(monitor.Spec.PodMetricsEndpoints) != 1 {
		t.Fatalf("got %+v, %v", monitor, err)
	}
	for _, name := range []string{"badger.yaml", "etcd.yaml"} {
		for pod, template := range templates(manifest(t, name)) {
			if got := selector.Matches(labels.Set(template.Labels)); got != (pod == "presets") {
				t.Errorf("%s: the monitor's selector matches %s: %v", name, pod, got)
			}
			if port := monitor.Spec.PodMetricsEndpoints[0].Port; pod == "presets" && !slices.Contains(ports(template), port) {
				t.Errorf("%s: the monitor asks port %s, and the pod has %q", name, port, ports(template))
			}
		}
	}
}

// TestKustomization checks that the resources of the kustomization exist, and that the image which it
// names is that of all pods.
func TestKustomization(t *testing.T) {
	var k struct {
		metav1.TypeMeta `json:",inline"`
		Resources       []string
		Images          []struct{ Name, NewName, NewTag string }
	}
	extension(t, "kustomization.yaml", &k)
	if !slices.Equal(k.Resources, []string{"namespace.yaml", "badger.yaml"}) || len(k.Images) != 1 {
		t.Fatalf("got %+v", k)
	}
	for _, name := range []string{"badger.yaml", "restore.yaml", "etcd.yaml"} {
		for pod, template := range templates(manifest(t, name)) {
			for _, container := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
				if container.Image != k.Images[0].Name+":latest" {
					t.Errorf("%s: %s has the image %s, which the kustomization does not replace", name, pod, container.Image)
				}
			}
		}
	}
}

// ports returns the names of a pod's ports.
func ports(pod corev1.PodTemplateSpec) (names []string) {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			names = append(names, port.Name)
		}
	}
	return names
}

// loadCompose loads a compose file as Compose does.
func loadCompose(file string, environment ...string) (*types.Project, error) {
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, filepath.FromSlash(file))}, cli.WithEnv(environment), cli.WithResolvedPaths(true))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}

// TestComposeVariables checks that the compose file passes each variable of the image's
// Caddyfile on. One that is unset or empty gets the Caddyfile's default.
func TestComposeVariables(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ops", "docker", "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	var variables [][]string
	for _, v := range regexp.MustCompile(`\{(?:\$|env\.)(\w+)(?::([^}]*))?\}`).FindAllStringSubmatch(string(text), -1) {
		if !slices.ContainsFunc(variables, func(other []string) bool { return slices.Equal(v[1:], other[1:]) }) {
			variables = append(variables, v)
		}
	}
	if len(variables) != 8 {
		t.Fatalf("the Caddyfile has the variables %q, want eight", variables)
	}
	empty, set := []string{"PRESETS_UPSTREAM=gateway:8000"}, []string(nil)
	for _, v := range variables {
		set = append(set, v[1]+"=given")
		if v[1] != "PRESETS_UPSTREAM" {
			empty = append(empty, v[1]+"=")
		}
	}
	for _, environment := range [][]string{empty[:1], empty, set} {
		project, err := loadCompose("ops/docker/compose.yaml", environment...)
		if err != nil {
			t.Fatal(err)
		}
		passed := project.Services["caddy"].Environment
		if len(passed) != len(variables) {
			t.Errorf("the compose file passes %v, want the variables of the Caddyfile", passed)
		}
		for _, v := range variables {
			want := v[2]
			switch {
			case slices.Equal(environment, set):
				want = "given"
			case v[1] == "PRESETS_UPSTREAM":
				want = "gateway:8000" // Compose wants it to be given
			}
			got := "absent"
			if value := passed[v[1]]; value != nil {
				got = *value
			}
			if got != want {
				t.Errorf("with %q: %s is %q, want %q", environment, v[1], got, want)
			}
		}
	}
}

// TestComposeFiles loads the compose files as Compose does, by its schema. A service that is
// built has a Dockerfile, and files that are mounted exist.
func TestComposeFiles(t *testing.T) {
	for file, services := range map[string]int{"ops/docker/compose.yaml": 1, "docs/cluster/compose.yaml": 7} {
		project, err := loadCompose(file, "PRESETS_UPSTREAM=gateway:8000")
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(project.Services) != services {
			t.Errorf("%s has %d services, want %d", file, len(project.Services), services)
		}
		for name, service := range project.Services {
			if service.Image == "caddy-presets" {
				grace := service.StopGracePeriod
				if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) || !slices.Equal(service.SecurityOpt, []string{"no-new-privileges:true"}) ||
					service.MemLimit == 0 || grace == nil || time.Duration(*grace) != 30*time.Second {
					t.Errorf("%s: %s is not confined, or has no time to stop", file, name)
				}
			}
			if service.Build != nil {
				exists(t, filepath.Join(service.Build.Context, service.Build.Dockerfile))
			}
			for _, volume := range service.Volumes {
				if volume.Type == types.VolumeTypeBind {
					exists(t, volume.Source)
				}
			}
			for _, port := range service.Ports {
				if port.HostIP != "127.0.0.1" {
					t.Errorf("%s: %s is published on %q, want loopback", file, name, port.HostIP)
				}
			}
		}
	}
	if _, err := loadCompose("ops/docker/compose.yaml"); err == nil || !strings.Contains(err.Error(), "PRESETS_UPSTREAM") {
		t.Errorf("without a gateway: got %v, want an error that names PRESETS_UPSTREAM", err)
	}
}
