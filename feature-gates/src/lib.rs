//! Kubernetes-style feature gates: stages, defaults, locks and the --feature-gates syntax
