// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A real etcd for the tests.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Nothing here takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs etcd, and ends it and removes its files when nobody holds the other end of the pipe any more: also
/// when the test dies.
const KEEPER: &str =
    "mkdir -p $0; \"$@\" >$0/log 2>&1 & echo $! >$0/pid; cat; kill -9 $!; wait; rm -r $0";

/// An etcd that ends with the test.
pub(crate) struct Server {
    folder: PathBuf,
    keeper: Child,
    /// Its URL.
    pub(crate) url: String,
    /// Where its health is asked for, which needs no certificate.
    health: String,
}

impl Server {
    /// Starts one, and waits until it answers.
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    /// The same, with TLS if there is a directory with `ca.crt`, `tls.crt` and `tls.key`: who asks must show a
    /// certificate of that authority.
    pub(crate) fn start_with(tls: Option<&Path>) -> Self {
        static SERVERS: AtomicU32 = AtomicU32::new(1);
        let number = SERVERS.fetch_add(1, Ordering::SeqCst);
        let name = format!("superp-etcd-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (client, peer, metrics) = (free(), free(), free());
        let of = |free: &TcpListener| format!("http://{}", free.local_addr().unwrap());
        let (url, peers, health) = (of(&client), of(&peer), of(&metrics));
        drop((client, peer, metrics));
        let url = match tls {
            Some(_) => url.replace("http:", "https:"),
            None => url,
        };
        let files = tls.iter().flat_map(|dir| {
            let file = |option: &str, name| format!("--{option}={}", dir.join(name).display());
            [
                "--client-cert-auth".into(),
                file("trusted-ca-file", "ca.crt"),
                file("cert-file", "tls.crt"),
                file("key-file", "tls.key"),
            ]
        });
        let keeper = Command::new("sh")
            .args(["-c", KEEPER])
            .arg(&folder)
            .args(["etcd", "--name", "one", "--log-level", "warn", "--data-dir"])
            .arg(folder.join("data"))
            .args([
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ])
            .args(["--listen-metrics-urls", &health])
            .args(files)
            .args(["--listen-peer-urls", &peers])
            .args(["--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("one={peers}")])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let server = Self {
            folder,
            keeper,
            url,
            health,
        };
        let end = Instant::now() + LIMIT;
        while !server.answers() {
            let log = std::fs::read_to_string(server.folder.join("log"));
            assert!(Instant::now() < end, "etcd does not start: {log:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    fn answers(&self) -> bool {
        use std::io::{Read, Write};
        let address = self.health.trim_start_matches("http://");
        let Ok(mut stream) = std::net::TcpStream::connect(address) else {
            return false;
        };
        let mut answer = String::new();
        let request = "GET /health HTTP/1.0\r\n\r\n";
        let asked = stream.write_all(request.as_bytes());
        asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.contains("true")
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = std::fs::read_to_string(self.folder.join("pid")).unwrap();
        send(signal, pid.trim());
    }
}

/// Sends a process a signal. One that stops it has stopped every thread of it when this returns: on another
/// processor they go on for a moment.
pub(crate) fn send(signal: &str, pid: &str) {
    let sent = Command::new("kill").args(["-s", signal, pid]).status();
    assert!(sent.unwrap().success());
    let end = Instant::now() + Duration::from_secs(10);
    while signal == "STOP" && !stopped(pid) {
        assert!(Instant::now() < end, "process {pid} does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn stopped(pid: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status"));
        // A thread that has ended since does nothing either.
        status.map_or(true, |status| status.contains("\nState:\tT"))
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
