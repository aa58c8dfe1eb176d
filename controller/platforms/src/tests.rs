mod argocd;
mod owner;
mod registry;
