package main

import (
	"bytes"
	"os"
	"testing"

	batch "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// The manifests of a sweep contain only fields of Kubernetes' types.
func TestManifestsOfASweep(t *testing.T) {
	text, err := os.ReadFile("../../examples/scale/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var jobs []batch.Job
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var job batch.Job
		if err := yaml.UnmarshalStrict(document, &job); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job)
	}
	if len(jobs) != 2 || *jobs[0].Spec.CompletionMode != batch.IndexedCompletion || *jobs[0].Spec.Completions != 8 || *jobs[0].Spec.BackoffLimitPerIndex != 3 ||
		jobs[1].Spec.PodFailurePolicy.Rules[0].Action != batch.PodFailurePolicyActionFailJob {
		t.Errorf("%+v", jobs)
	}
}
