module retry-policy.dev/tests/e2e-kueue

go 1.26.0

tool sigs.k8s.io/kueue/test/e2e/singlecluster/baseline

tool sigs.k8s.io/kueue/test/e2e/singlecluster/extended

require sigs.k8s.io/kueue v0.19.2
