mod argocd;
mod owner;
