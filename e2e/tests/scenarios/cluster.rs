//! The control plane itself.
use vmpool_e2e::cluster::{Cluster, Options, Restart};

#[tokio::test(flavor = "multi_thread")]
async fn starts() {
    tracing_subscriber::fmt().with_test_writer().init();
    let cluster = Cluster::start(Options::default()).await.unwrap();
    println!("{}", cluster.kubectl(&["get", "--raw", "/readyz"]).await.unwrap());
    println!("{}", cluster.kubectl(&["get", "sa,ns", "-A"]).await.unwrap());
    let mark = cluster.audit_mark();
    let before = cluster.metrics().await.unwrap();
    cluster.kubectl(&["create", "cm", "x"]).await.unwrap();
    println!("{:#?}", cluster.audit(mark).unwrap());
    println!("{}", cluster.metrics().await.unwrap().since(&before));
    let t = std::time::Instant::now();
    cluster.restart_api_server(Restart::Graceful).await.unwrap();
    println!("graceful {:?}", t.elapsed());
    let t = std::time::Instant::now();
    cluster.restart_api_server(Restart::Killed).await.unwrap();
    println!("killed {:?}", t.elapsed());
    let sa = cluster.service_account_kubeconfig("default", "default").await.unwrap();
    println!("{}", sa.display());
    let t = std::time::Instant::now();
    cluster.stop().await.unwrap();
    println!("stop {:?}", t.elapsed());
}
