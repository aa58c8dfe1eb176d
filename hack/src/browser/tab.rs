//! A tab of the browser.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::process::Chromium;

/// How long a page may take to fulfill a condition.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time between two looks at a condition.
const POLL: Duration = Duration::from_millis(50);

/// A color scheme of the user's system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColorScheme {
    Light,
    Dark,
}

/// The size of a tab in CSS pixels, and the color scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BrowserView {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) scheme: ColorScheme,
}

/// What a screen reader gets of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessibleElement {
    pub(crate) role: String,
    pub(crate) name: String,
}

/// A tab.
pub(crate) struct BrowserTab<'a> {
    browser: &'a mut Chromium,
    session: String,
}

impl<'a> BrowserTab<'a> {
    /// Opens an empty tab with this view.
    ///
    /// # Errors
    /// The browser refuses a command or has exited, as for all methods.
    pub(crate) fn open(browser: &'a mut Chromium, view: BrowserView) -> Result<Self> {
        let created = browser.tools.send(None, "Target.createTarget", &json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": created["targetId"], "flatten": true });
        let attached = browser.tools.send(None, "Target.attachToTarget", &attach)?;
        let session = attached["sessionId"].as_str().context("the browser names no session")?.to_owned();
        let mut tab = Self { browser, session };
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            tab.send(&format!("{domain}.enable"), &json!({}))?;
        }
        tab.set_view(view)?;
        Ok(tab)
    }

    /// Changes size and color scheme.
    pub(crate) fn set_view(&mut self, view: BrowserView) -> Result<()> {
        let BrowserView { width, height, scheme } = view;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.send("Emulation.setDeviceMetricsOverride", &size)?;
        let value = match scheme {
            ColorScheme::Light => "light",
            ColorScheme::Dark => "dark",
        };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.send("Emulation.setEmulatedMedia", &media)?;
        Ok(())
    }

    /// Loads a page.
    pub(crate) fn load(&mut self, url: &str) -> Result<()> {
        let loaded = self.send("Page.navigate", &json!({ "url": url }))?;
        if let Some(reason) = loaded["errorText"].as_str() {
            bail!("the browser cannot load {url}: {reason}");
        }
        self.wait_until("document.readyState === 'complete' && location.href !== 'about:blank'")
    }

    /// The value of a JavaScript expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let order = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.send("Runtime.evaluate", &order)?;
        if result["exceptionDetails"].is_object() {
            bail!("{expression}: {}", result["exceptionDetails"]);
        }
        Ok(result["result"]["value"].clone())
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// It is still not true after [`PATIENCE`].
    pub(crate) fn wait_until(&mut self, expression: &str) -> Result<()> {
        let start = Instant::now();
        // While a page is being replaced, expressions fail.
        while self.evaluate(expression).unwrap_or_default() != true {
            if start.elapsed() > PATIENCE {
                bail!("after {PATIENCE:?}, the page does not fulfill {expression}");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Presses and releases a key by its name, for example `Tab`.
    pub(crate) fn press(&mut self, key: &str) -> Result<()> {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            _ => bail!("the key {key} has no code here"),
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
            });
            self.send("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    /// Types a text into the focused element.
    pub(crate) fn type_text(&mut self, text: &str) -> Result<()> {
        self.send("Input.insertText", &json!({ "text": text })).map(drop)
    }

    /// Writes a screenshot of the visible part as PNG.
    pub(crate) fn write_screenshot(&mut self, path: &Path) -> Result<()> {
        let shot = self.send("Page.captureScreenshot", &json!({ "format": "png" }))?;
        let encoded = shot["data"].as_str().context("the browser sends no picture")?;
        let picture = STANDARD.decode(encoded).map_err(|error| anyhow!("reading the picture: {error}"))?;
        fs::write(path, picture).with_context(|| format!("writing {}", path.display()))
    }

    /// The elements that a screen reader gets, in the order of the page.
    pub(crate) fn accessible_elements(&mut self) -> Result<Vec<AccessibleElement>> {
        let tree = self.send("Accessibility.getFullAXTree", &json!({}))?;
        let nodes = tree["nodes"].as_array().context("the browser sends no accessibility tree")?;
        let shown = nodes.iter().filter(|node| node["ignored"] != true);
        let text = |node: &Value, field: &str| node[field]["value"].as_str().unwrap_or_default().to_owned();
        Ok(shown
            .map(|node| AccessibleElement { role: text(node, "role"), name: text(node, "name") })
            .collect())
    }

    /// What the page wrote to its console since the last call, and its errors.
    pub(crate) fn take_messages(&mut self) -> Vec<String> {
        let events = self.browser.tools.take_events(&self.session);
        events.iter().filter_map(describe_console_event).collect()
    }

    fn send(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.browser.tools.send(Some(&self.session), method, parameters)
    }
}

/// The text of an event of the console; `None` for other events.
fn describe_console_event(event: &Value) -> Option<String> {
    let parameters = &event["params"];
    let text = match event["method"].as_str()? {
        "Runtime.consoleAPICalled" => parameters["args"].to_string(),
        "Runtime.exceptionThrown" => parameters["exceptionDetails"].to_string(),
        "Log.entryAdded" => {
            let entry = &parameters["entry"];
            format!(
                "{} {}",
                entry["text"].as_str().unwrap_or_default(),
                entry["url"].as_str().unwrap_or_default()
            )
        }
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_errors_and_log_entries_of_a_page_are_found() {
        let event = |method: &str, params: Value| json!({ "method": method, "params": params });
        let entry = json!({ "entry": { "text": "not found", "url": "http://127.0.0.1/a.js" } });
        let texts: Vec<Option<String>> = [
            event("Runtime.consoleAPICalled", json!({ "args": ["a"] })),
            event("Runtime.exceptionThrown", json!({ "exceptionDetails": { "text": "Uncaught" } })),
            event("Log.entryAdded", entry),
            event("Page.loadEventFired", json!({})),
        ]
        .iter()
        .map(describe_console_event)
        .collect();
        let expected = ["[\"a\"]", "{\"text\":\"Uncaught\"}", "not found http://127.0.0.1/a.js"];
        assert_eq!(texts[..3], expected.map(|text| Some(text.to_owned())));
        assert_eq!(texts[3], None);
    }
}
