//! A queue of jobs, whose length KEDA reads.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use anyhow::{Context, Result};

/// Serves the number of jobs as JSON until this process ends.
#[derive(Debug)]
pub(super) struct JobQueue {
    jobs: Arc<AtomicU32>,
    port: u16,
}

impl JobQueue {
    /// Starts with an empty queue.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("serving the queue")?;
        let port = listener.local_addr().context("serving the queue")?.port();
        let jobs = Arc::new(AtomicU32::new(0));
        let served = jobs.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // KEDA reads it again after a failure.
                let _ = answer_queue_request(stream, served.load(Ordering::Relaxed));
            }
        });
        Ok(Self { jobs, port })
    }

    /// Its address for KEDA.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Sets the number of waiting jobs.
    pub(super) fn set_jobs(&self, jobs: u32) {
        self.jobs.store(jobs, Ordering::Relaxed);
    }
}

fn answer_queue_request(stream: TcpStream, jobs: u32) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    // The headers end with an empty line.
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let body = format!("{{\"jobs\":{jobs}}}");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    write!(reader.into_inner(), "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[cfg(test)]
mod tests {
    use super::super::super::http::get_json;
    use super::JobQueue;

    #[test]
    fn the_queue_serves_its_present_length() {
        let queue = JobQueue::start().unwrap();
        assert_eq!(get_json(queue.port, "/").unwrap()["jobs"], 0);
        queue.set_jobs(12);
        assert_eq!(get_json(queue.port, "/").unwrap()["jobs"], 12);
    }
}
