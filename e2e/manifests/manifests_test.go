// Package manifests checks the files in ops/kubernetes and the compose files. It takes them
// as Kubernetes' API server does, with the server's own code. That code decodes strictly, sets
// defaults, validates, and enforces the pod security standard of the namespace. The package is a
// module of its own, since that code is large.
package manifests

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
)

// root is the folder of the repository.
var root = filepath.Join("..", "..")

// strategies are the API server's rules for new objects, by their kind.
var strategies = map[string]struct {
	rest.RESTCreateStrategy
	resource string
}{
	"ConfigMap":             {configmap.Strategy, "configmaps"},
	"CronJob":               {cronjob.Strategy, "cronjobs"},
	"Deployment":            {deployment.Strategy, "deployments"},
	"Ingress":               {ingress.Strategy, "ingresses"},
	"Job":                   {job.Strategy, "jobs"},
	"Namespace":             {namespace.Strategy, "namespaces"},
	"NetworkPolicy":         {networkpolicy.Strategy, "networkpolicies"},
	"PersistentVolumeClaim": {persistentvolumeclaim.Strategy, "persistentvolumeclaims"},
	"PodDisruptionBudget":   {poddisruptionbudget.Strategy, "poddisruptionbudgets"},
	"Service":               {service.Strategy, "services"},
	"StatefulSet":           {statefulset.Strategy, "statefulsets"},
}

// object is a document of a manifest, as given.
type object struct {
	runtime.Object
	kind schema.GroupVersionKind
	name string
}

// decode returns the objects of a manifest, in the types of their versions. Unknown and
// repeated fields are errors.
func decode(text []byte) (all []object, err error) {
	codecs := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		o, kind, err := codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		named, err := meta.Accessor(o)
		if err != nil {
			return nil, err
		}
		all = append(all, object{o, *kind, named.GetName()})
	}
}

// create does to an object what the API server does before it stores it. It returns the
// server's warnings.
func create(o object) (warnings []string, err error) {
	rules, ok := strategies[o.kind.Kind]
	if !ok {
		return nil, errors.New("no rules for the kind " + o.kind.Kind)
	}
	given := o.DeepCopyObject()
	legacyscheme.Scheme.Default(given)
	internal, err := legacyscheme.Scheme.ConvertToVersion(given, schema.GroupVersion{Group: o.kind.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return nil, err
	}
	named, err := meta.Accessor(internal)
	if err != nil {
		return nil, err
	}
	ctx := request.WithNamespace(context.Background(), named.GetNamespace())
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: "create", Namespace: named.GetNamespace(), Resource: rules.resource,
		APIGroup: o.kind.Group, APIVersion: o.kind.Version,
	})
	rest.FillObjectMetaSystemFields(named)
	if err := rest.BeforeCreate(rules.RESTCreateStrategy, ctx, internal); err != nil {
		return nil, err
	}
	return rules.WarningsOnCreate(ctx, internal), nil
}

// manifest returns the objects of a file in ops/kubernetes.
func manifest(t *testing.T, name string) []object {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ops", "kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	all, err := decode(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return all
}

// TestServerTakesManifests checks that an API server would take each object, without a
// warning.
func TestServerTakesManifests(t *testing.T) {
	for _, name := range []string{"namespace.yaml", "badger.yaml", "restore.yaml", "etcd.yaml", "ingress.yaml"} {
		for _, o := range manifest(t, name) {
			warnings, err := create(o)
			if err != nil || len(warnings) > 0 {
				t.Errorf("%s: %s %s: %v, warnings %q", name, o.kind.Kind, o.name, err, warnings)
			}
			named, _ := meta.Accessor(o.Object)
			if want := map[bool]string{true: "", false: "presets"}[o.kind.Kind == "Namespace"]; named.GetNamespace() != want {
				t.Errorf("%s: %s %s is in namespace %q, want %q", name, o.kind.Kind, o.name, named.GetNamespace(), want)
			}
		}
	}
}

// exists checks that a file is there.
func exists(t *testing.T, file string) {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestMistakesAreFound checks that the server's rules are applied.
func TestMistakesAreFound(t *testing.T) {
	const good = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","namespace":"b"},"spec":{"ports":[{"port":80}]}}`
	for _, tc := range []struct{ name, old, with, want string }{
		{"nothing", "", "", ""},
		{"an unknown field", `"port":80`, `"port":80,"prot":"TCP"`, `unknown field "spec.ports[0].prot"`},
		{"a repeated field", `"port":80`, `"port":80,"port":80`, `duplicate field "spec.ports[0].port"`},
		{"a wrong type", `80`, `"http"`, "cannot unmarshal"},
		{"a value out of range", `80`, `80000`, "spec.ports[0].port"},
		{"a wrong name", `"a"`, `"A_"`, "metadata.name"},
		{"no namespace", `"namespace":"b"`, `"namespace":""`, "namespace"},
		{"an unknown version", `"v1"`, `"v9"`, "no kind"},
	} {
		objects, err := decode([]byte(strings.Replace(good, tc.old, tc.with, 1)))
		if err == nil {
			_, err = create(objects[0])
		}
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}
