//! The `DevTools` protocol over pipes: JSON messages, each with a zero byte at its end.

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

/// How long a command may take. The first one waits for the start of the browser.
const DEADLINE: Duration = Duration::from_mins(1);

/// The connection to a browser.
pub(super) struct DevTools {
    commands: Box<dyn Write + Send>,
    messages: Receiver<Value>,
    last_command: u64,
    /// The events since the last time that they were taken.
    events: Vec<Value>,
    /// The file with what the browser wrote to standard error.
    log: PathBuf,
}

impl DevTools {
    pub(super) fn new(commands: Box<dyn Write + Send>, messages: Box<dyn Read + Send>, log: PathBuf) -> Self {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            for message in BufReader::new(messages).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { continue };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { commands, messages: receiver, last_command: 0, events: Vec::new(), log }
    }

    /// Sends a command, and returns its result. Commands without a session are for the whole browser.
    ///
    /// # Errors
    /// The browser refuses the command, does not respond in time, or has exited.
    pub(super) fn send(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> Result<Value> {
        self.last_command += 1;
        let id = self.last_command;
        let mut command = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).and_then(|()| self.commands.flush()).map_err(|_| self.exited())?;
        let start = Instant::now();
        loop {
            let message = self.receive(DEADLINE.saturating_sub(start.elapsed()));
            let message = message.with_context(|| format!("waiting for the response to {method}"))?;
            if message["id"] != id {
                self.events.push(message);
                continue;
            }
            if let Some(text) = message["error"]["message"].as_str() {
                bail!("the browser refuses {method}: {text}");
            }
            return Ok(message["result"].clone());
        }
    }

    /// The events of a session since the last call.
    pub(super) fn take_events(&mut self, session: &str) -> Vec<Value> {
        let (own, others) = self.events.drain(..).partition(|event| event["sessionId"] == session);
        self.events = others;
        own
    }

    /// Ends the browser.
    ///
    /// # Errors
    /// The browser does not respond.
    pub(super) fn close(&mut self) -> Result<()> {
        self.send(None, "Browser.close", &json!({})).map(drop)
    }

    fn receive(&self, limit: Duration) -> Result<Value> {
        self.messages.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => anyhow!("the browser did not respond within {DEADLINE:?}"),
            RecvTimeoutError::Disconnected => self.exited(),
        })
    }

    fn exited(&self) -> anyhow::Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        anyhow!("the browser has exited; its log:\n{}", log.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn connection(messages: &'static str) -> DevTools {
        let log = PathBuf::from("/does/not/exist");
        DevTools::new(Box::new(std::io::sink()), Box::new(Cursor::new(messages)), log)
    }

    #[test]
    fn a_response_is_found_by_its_number_and_events_are_kept_for_their_session() {
        let mut tools = connection(
            "{\"method\":\"a\",\"sessionId\":\"s\"}\0{\"method\":\"b\",\"sessionId\":\"t\"}\0\
             {\"id\":1,\"result\":{\"value\":7}}\0",
        );
        assert_eq!(tools.send(Some("s"), "m", &json!({})).unwrap(), json!({ "value": 7 }));
        let names = |events: Vec<Value>| events.iter().map(|e| e["method"].clone()).collect::<Vec<_>>();
        assert_eq!(names(tools.take_events("s")), ["a"]);
        assert_eq!(names(tools.take_events("s")), Vec::<Value>::new());
        assert_eq!(names(tools.take_events("t")), ["b"]);
    }

    #[test]
    fn a_refused_command_and_an_exit_are_errors() {
        let mut tools = connection("{\"id\":1,\"error\":{\"message\":\"no such method\"}}\0");
        let refused = tools.send(None, "m", &json!({})).unwrap_err().to_string();
        assert_eq!(refused, "the browser refuses m: no such method");
        let exited = format!("{:#}", tools.send(None, "m", &json!({})).unwrap_err());
        assert!(exited.contains("the browser has exited"), "{exited}");
    }
}
