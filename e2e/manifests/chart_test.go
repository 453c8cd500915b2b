package manifests

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
)

const helmCommand = "helm.sh/helm/v4/cmd/helm@v4.3.2"

// newHelm builds Helm, and returns a function that runs it. Its error has what Helm printed.
func newHelm(t *testing.T) func(args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	run := func(env []string, name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), env...)
		var out, message bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &message
		err := cmd.Run()
		return out.String() + message.String(), err
	}
	if out, err := run([]string{"GOFLAGS=", "GOBIN=" + home}, "go", "install", helmCommand); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	chart := filepath.Join(root, "ops", "kubernetes")
	return func(args ...string) (string, error) {
		env := []string{"HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "none")}
		return run(env, filepath.Join(home, "helm"), append(args, chart)...)
	}
}

// TestChart checks that Helm's linter takes the chart. Without values its objects are those of the
// manifests, except that an uninstallation keeps the backups. Values reach all objects that they are
// about, and what they make is taken by the API server and by the standard "restricted".
func TestChart(t *testing.T) {
	helm := newHelm(t)
	render := func(args ...string) []object {
		t.Helper()
		out, err := helm(append([]string{"template", "presets", "--namespace", "presets"}, args...)...)
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		all, err := decode([]byte(out))
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return all
	}
	for _, engine := range []string{"badger", "etcd"} {
		if out, err := helm("lint", "--strict", "--set", "engine="+engine, "--set", "monitoring=true"); err != nil {
			t.Errorf("%s: %v\n%s", engine, err, out)
		}
		got, want := byName(t, render("--set", "engine="+engine)), byName(t, manifest(t, engine+".yaml"))
		for name, o := range want {
			if claim, ok := o.Object.(*corev1.PersistentVolumeClaim); ok {
				claim.Annotations = map[string]string{"helm.sh/resource-policy": "keep"}
			}
			if got[name].Object == nil || !equality.Semantic.DeepEqual(got[name].Object, o.Object) {
				t.Errorf("%s: the chart's %s differs from the manifest's:\n%+v\n%+v", engine, name, got[name].Object, o.Object)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: the chart has %d objects, want %d", engine, len(got), len(want))
		}

		caddyfile := filepath.Join(t.TempDir(), "Caddyfile")
		if err := os.WriteFile(caddyfile, []byte("# a file of the operator: {{ $x }}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		values := []string{
			"image=registry.example.com/presets:v1", "trustedProxies=10.1.0.0/16", "resources.limits.memory=1Gi",
			"gateway.upstream=litellm.llm.svc:4000", "gateway.namespace=llm", "gateway.port=4000", "gateway.secret=llm-key",
			"storage=20Gi", "backupStorage=30Gi", "seLinuxLevel=s0:c1\\,c2", "etcd.endpoints=https://etcd.db.svc:2379", "etcd.namespace=db",
			"env[0].name=MORE", "env[0].value=more", "volumes[0].name=key", "volumes[0].secret.secretName=store-key", "volumeMounts[0].name=key",
			"volumeMounts[0].mountPath=/etc/key", "pod.nodeSelector.disk=ssd", "pod.imagePullSecrets[0].name=registry", "storageClass=fast",
		}
		args := []string{"--namespace", "team", "--set", "engine=" + engine, "--set-file", "caddyfile=" + caddyfile}
		for _, value := range values {
			args = append(args, "--set", value)
		}
		seen := make(map[string]bool)
		for name, o := range byName(t, render(args...)) {
			if warnings, err := create(o); err != nil || len(warnings) > 0 {
				t.Errorf("%s: %s: %v, warnings %q", engine, name, err, warnings)
			}
			if named, _ := meta.Accessor(o.Object); named.GetNamespace() != "team" {
				t.Errorf("%s: %s is in the namespace %q", engine, name, named.GetNamespace())
			}
			note(seen, o)
		}
		facts := []string{
			"caddy: image registry.example.com/presets:v1", "caddy: memory 256Mi to 1Gi", "caddy: key llm-key",
			"caddy: PRESETS_UPSTREAM litellm.llm.svc:4000", "caddy: PRESETS_TRUSTED_PROXIES 10.1.0.0/16",
			"# a file of the operator: {{ $x }}\n", "opens llm 4000",
			"caddy: MORE more", "caddy: /etc/key of store-key", "caddy: on ssd, image by registry",
		}
		if engine == "badger" {
			facts = append(facts, "backup: image registry.example.com/presets:v1", "backup: memory 64Mi to 256Mi", "caddy: level s0:c1,c2", "backup: level s0:c1,c2", "claim 20Gi, fast", "claim 30Gi, fast", "backup: on ssd, image by registry")
		} else {
			facts = append(facts, "caddy: PRESETS_ETCD https://etcd.db.svc:2379", "opens db 2379")
		}
		for _, fact := range facts {
			if !seen[fact] {
				t.Errorf("%s: the objects lack %q, they have %q", engine, fact, slices.Sorted(maps.Keys(seen)))
			}
			delete(seen, fact)
		}
		if len(seen) > 0 {
			t.Errorf("%s: the objects also have %q", engine, slices.Sorted(maps.Keys(seen)))
		}
	}

	for _, o := range render("--set", "seLinuxLevel=none") {
		for pod, template := range templates([]object{o}) {
			if template.Spec.SecurityContext.SELinuxOptions != nil {
				t.Errorf("%s has a level of SELinux", pod)
			}
		}
	}
	out, err := helm("template", "--set", "monitoring=true")
	if err != nil || !strings.Contains(out, "kind: PodMonitor") || !strings.Contains(out, "{{ $labels.instance }}") {
		t.Errorf("with monitoring: got %v, %s", err, out)
	}
	for _, mistake := range []string{"engine=sqlite", "imagee=x", "gateway.port=http", "trustedProxies=10.0.0.1\\,10.0.0.2", "volumes[0].mountPath=/x"} {
		if out, err := helm("template", "--set", mistake); err == nil {
			t.Errorf("%s is taken: %s", mistake, out)
		}
	}
}

// byName returns objects by their kind and name.
func byName(t *testing.T, objects []object) map[string]object {
	t.Helper()
	all := make(map[string]object)
	for _, o := range objects {
		name := o.kind.Kind + " " + o.name
		if _, taken := all[name]; taken {
			t.Errorf("there are two of %s", name)
		}
		all[name] = o
	}
	return all
}

// note adds to seen the facts of an object that values decide.
func note(seen map[string]bool, o object) {
	for _, template := range templates([]object{o}) {
		for _, c := range template.Spec.Containers {
			seen[c.Name+": image "+c.Image] = true
			seen[c.Name+": memory "+c.Resources.Requests.Memory().String()+" to "+c.Resources.Limits.Memory().String()] = true
			if pod := template.Spec; len(pod.ImagePullSecrets) > 0 {
				seen[c.Name+": on "+pod.NodeSelector["disk"]+", image by "+pod.ImagePullSecrets[0].Name] = true
			}
			for _, mount := range c.VolumeMounts {
				for _, v := range template.Spec.Volumes {
					if v.Name == mount.Name && mount.Name == "key" {
						seen[c.Name+": "+mount.MountPath+" of "+v.Secret.SecretName] = true
					}
				}
			}
			if level := template.Spec.SecurityContext.SELinuxOptions; level != nil {
				seen[c.Name+": level "+level.Level] = true
			}
			for _, variable := range c.Env {
				if from := variable.ValueFrom; from != nil {
					seen[c.Name+": key "+from.SecretKeyRef.Name] = true
				} else {
					seen[c.Name+": "+variable.Name+" "+variable.Value] = true
				}
			}
		}
	}
	switch o := o.Object.(type) {
	case *corev1.ConfigMap:
		seen[o.Data["Caddyfile"]] = true
	case *corev1.PersistentVolumeClaim:
		seen[claimOf(o.Spec)] = true
	case *appsv1.StatefulSet:
		seen[claimOf(o.Spec.VolumeClaimTemplates[0].Spec)] = true
	case *networkingv1.NetworkPolicy:
		for _, rule := range o.Spec.Egress {
			for _, to := range rule.To {
				if to.NamespaceSelector != nil {
					seen["opens "+to.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]+" "+rule.Ports[0].Port.String()] = true
				}
			}
		}
	}
}

// claimOf returns the facts of a claim of a volume.
func claimOf(claim corev1.PersistentVolumeClaimSpec) string {
	return fmt.Sprintf("claim %s, %s", claim.Resources.Requests.Storage(), *claim.StorageClassName)
}
