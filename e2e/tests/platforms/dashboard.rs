//! The dashboard of the plugin, as a browser uses it.

use anyhow::{Context as _, Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use vmpool_e2e::world::{DEADLINE, PoolScaleDownPolicy};
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::poll::poll_until;
use vmpool_test_cluster::process::ChildProcess;

use crate::on;
use crate::plugin::{Plugin, platform_rules};

/// A running dashboard.
struct Dashboard {
    /// Address and port.
    host: String,
    /// The path with the token.
    entry: String,
    _process: ChildProcess,
}

impl Dashboard {
    /// Starts the dashboard, and reads the address that it prints.
    async fn start(plugin: &Plugin<'_>) -> Result<Self> {
        let process = plugin.start(&["dashboard", "--no-open"])?;
        let address = poll_until(
            || "the address of the dashboard".to_owned(),
            DEADLINE,
            async || {
                process.check()?;
                let log = process.log_tail(10);
                let line = log.lines().find_map(|line| line.strip_prefix("http://"));
                Ok(line.filter(|line| line.contains("/?token=")).map(str::to_owned).ok_or(log))
            },
        )
        .await?;
        let (host, path) = address.split_once('/').context("the address has no path")?;
        Ok(Self { host: host.to_owned(), entry: format!("/{path}"), _process: process })
    }

    /// Sends a request, after which the server closes the connection.
    async fn request(&self, host: &str, path: &str, cookie: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.host).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        Ok(stream)
    }

    /// The complete response, with its headers.
    async fn get(&self, path: &str, cookie: &str) -> Result<String> {
        let mut response = String::new();
        self.request(&self.host, path, cookie).await?.read_to_string(&mut response).await?;
        Ok(response)
    }

    /// The JSON of a response.
    async fn json(&self, path: &str, cookie: &str) -> Result<Value> {
        let response = self.get(path, cookie).await?;
        let (head, body) = response.split_once("\r\n\r\n").context("the response has no body")?;
        ensure!(head.contains(" 200 "), "{response}");
        Ok(serde_json::from_str(body)?)
    }

    /// Exchanges the token for a cookie.
    async fn enter(&self) -> Result<String> {
        let response = self.get(&self.entry, "").await?;
        ensure!(response.contains("HttpOnly; SameSite=Strict"), "{response}");
        let lower = response.to_ascii_lowercase();
        let start = lower.find("set-cookie: ").context("no cookie")? + "set-cookie: ".len();
        Ok(response[start..].split(';').next().unwrap_or_default().to_owned())
    }
}

/// Reads server-sent events until they contain a text.
async fn read_until(stream: &mut TcpStream, text: &str) -> Result<()> {
    let mut received = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&received).contains(text) {
            let count = stream.read_buf(&mut received).await?;
            ensure!(count > 0, "the stream ended before {text}");
        }
        Ok::<(), anyhow::Error>(())
    };
    let outcome = tokio::time::timeout(DEADLINE, read).await;
    outcome.with_context(|| format!("no event with {text}"))?
}

/// The rights to list and to watch the platform's objects.
fn rules(platform: TestedPlatform) -> Value {
    let mut rules = platform_rules(platform);
    let group = platform.resource(TestedKind::Machine).group;
    let watch = json!({
        "apiGroups": [group], "resources": ["virtualmachines", "virtualmachineinstances"], "verbs": ["watch"],
    });
    if let Some(rules) = rules.as_array_mut() {
        rules.push(watch);
    }
    rules
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp, "dvp")]
#[case::kubevirt(TestedPlatform::KubeVirt, "kubevirt")]
fn the_dashboard_shows_pools_live_with_the_rights_of_its_user(
    #[case] platform: TestedPlatform,
    #[case] name: &str,
) {
    on(platform, "the dashboard shows pools live", async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::NewestFirst).replicas(2).ready().await?;
        let plugin = Plugin::of(world, "dora", &["edit"], Some(rules(platform))).await?;
        let dashboard = Dashboard::start(&plugin).await?;

        // Without the cookie, or under another name, nothing is answered. The token works once.
        let refused = dashboard.get("/api/board", "").await?;
        ensure!(refused.contains(" 403 ") && !refused.contains("web"), "{refused}");
        let cookie = dashboard.enter().await?;
        let again = dashboard.get(&dashboard.entry, "").await?;
        ensure!(again.contains(" 403 "), "{again}");
        let mut rebound = String::new();
        let mut stream = dashboard.request("evil.example", "/api/board", &cookie).await?;
        stream.read_to_string(&mut rebound).await?;
        ensure!(rebound.contains(" 421 "), "{rebound}");
        let page = dashboard.get("/", &cookie).await?;
        ensure!(page.contains("<title>vmpool dashboard</title>"), "{page}");
        ensure!(page.to_ascii_lowercase().contains("content-security-policy: default-src 'none'"), "{page}");

        // The board has the pool and its machines, with their nodes.
        let machines = poll_until(
            || "the machines on the board".to_owned(),
            DEADLINE,
            async || {
                let board = dashboard.json("/api/board", &cookie).await;
                let board = board.map_err(|error| format!("{error:#}"));
                Ok(board.and_then(|board| {
                    let machines = board["pools"][0]["machines"].as_array().cloned().unwrap_or_default();
                    let are_ready = machines.iter().filter(|machine| machine["ready"] == true).count() == 2;
                    if are_ready { Ok(machines) } else { Err(board.to_string()) }
                }))
            },
        )
        .await?;
        ensure!(machines.iter().all(|machine| machine["node"].is_string()), "{machines:?}");

        // A plan changes nothing.
        let namespace = world.namespace();
        let query = format!("/api/plan?platform={name}&namespace={namespace}&pool=web&replicas=1");
        let plan = dashboard.json(&query, &cookie).await?;
        ensure!(plan["now"][0]["verb"] == "delete" && plan["plannedReplicas"] == 1, "{plan}");
        ensure!(pool.get().await?.number("/spec/replicas") == Some(2));

        // A change of the pool arrives as an event.
        let mut changes = dashboard.request(&dashboard.host, "/api/changes", &cookie).await?;
        read_until(&mut changes, "\"desired\":2").await?;
        pool.scale(3).await?;
        read_until(&mut changes, "\"desired\":3").await?;
        Ok(())
    });
}
