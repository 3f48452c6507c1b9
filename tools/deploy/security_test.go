package deploy

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// checkRestricted tells what keeps the probers from running where the pod
// security level "restricted" is enforced.
func checkRestricted(all objects) (mistakes []string) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return []string{err.Error()}
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, set := range of[*appsv1.StatefulSet](all) {
		pod := set.Spec.Template
		for _, r := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
			if !r.Allowed {
				mistakes = append(mistakes, title(set)+": "+r.ForbiddenReason+": "+r.ForbiddenDetail)
			}
		}
	}
	return mistakes
}
