// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp fabric` and a manager with agents that speak the real interface over TCP, on 127.0.0.0/8.

// The agents of the manager's own tests.
#[allow(dead_code)]
#[path = "../../manager/tests/fabric/agent.rs"]
mod agent;
#[path = "fabric/proxy.rs"]
mod proxy;

use agent::{Agent, World};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use superp_cm::engine::{Manager, Way};
use superp_cm::store::Sqlite;
use superp_tls::authority::{self, Request};
use superp_tls::{Role, Tls};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Agents, and a manager that can be ended and started again.
struct Lab {
    runtime: Runtime,
    world: Arc<World>,
    net: String,
    folder: PathBuf,
    nodes: usize,
    /// The manager has TLS, and it is alice who asks.
    secure: bool,
    manager: Option<(Manager, JoinHandle<()>)>,
}

/// A program that another test has just begun may have the former listener until it is executed.
async fn listen(address: &str) -> TcpListener {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < end => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            listener => return listener.unwrap(),
        }
    }
}

impl Lab {
    fn new(nodes: usize) -> Self {
        Self::with(nodes, false)
    }

    fn with(nodes: usize, secure: bool) -> Self {
        static LABS: AtomicU32 = AtomicU32::new(1);
        let lab = LABS.fetch_add(1, Ordering::SeqCst);
        let process = std::process::id();
        // Addresses of its own, whatever else runs on this machine.
        let net = format!("127.{}.{}", 16 + process % 200, 100 + lab);
        let folder = std::env::temp_dir().join(format!("superp-fabric-{process}-{lab}"));
        std::fs::create_dir_all(&folder).unwrap();
        let world = Arc::new(World::default());
        let runtime = Runtime::new().unwrap();
        for number in 1..=nodes {
            runtime.block_on(Agent::start(format!("{net}.{number}:7779"), &world));
        }
        let mut lab = Self {
            runtime,
            world,
            net,
            folder,
            nodes,
            secure,
            manager: None,
        };
        if secure {
            authority::init(&lab.folder.join("ca")).unwrap();
            let day = SystemTime::now() + Duration::from_secs(24 * 3600);
            let address = format!("{}.250", lab.net);
            lab.issue("manager", Role::Manager, vec![address], day);
            lab.issue("alice", Role::Operator, Vec::new(), day);
            lab.issue("bob", Role::Viewer, Vec::new(), day);
        }
        lab.start();
        let file = lab.file();
        std::fs::write(lab.folder.join("lab.toml"), file).unwrap();
        lab
    }

    fn issue(&self, name: &str, role: Role, addresses: Vec<String>, until: SystemTime) {
        let request = Request {
            name: name.into(),
            role,
            addresses,
            until,
        };
        let out = self.folder.join(name);
        authority::issue(&self.folder.join("ca"), &request, &out).unwrap();
    }

    fn start(&mut self) {
        let tls = self.secure.then(|| {
            let tls = Tls::read(&self.folder.join("manager")).unwrap();
            tls.server().unwrap()
        });
        let (address, path) = (
            format!("{}.250:7778", self.net),
            self.folder.join("manager.db"),
        );
        let started = self.runtime.block_on(async {
            let listener = listen(&address).await;
            let store = Sqlite::open(&path).unwrap();
            let manager = Manager::start(Box::new(store), 1, Way::Loopback).unwrap();
            let (router, ending) = (superp_cm::api::router(manager.clone()), manager.clone());
            let end = async move {
                ending.ending().wait_for(|ending| *ending).await.unwrap();
            };
            let served = tokio::spawn(superp_tls::serve::serve(listener, router, tls, end));
            (manager, served)
        });
        self.manager = Some(started);
    }

    fn end(&mut self) {
        let (manager, served) = self.manager.take().unwrap();
        manager.end();
        self.runtime.block_on(served).unwrap();
    }

    /// A fabric file: all connected to all.
    fn file(&self) -> String {
        format!(
            "fabric = \"lab\"\n\
             [[nodes]]\nhosts = \"xpu[1-{count}]\"\nagent = \"{net}.{{n}}:7779\"\n\
             address = \"10.23.0.{{n}}\"\nports = [{{ dev = \"eth0\" }}]\n\
             [[connections]]\nmesh = \"xpu[1-{count}]\"\n",
            count = self.nodes,
            net = self.net
        )
    }

    fn url(&self) -> String {
        let scheme = match self.secure {
            true => "https",
            false => "http",
        };
        format!("{scheme}://{}.250:7778", self.net)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = command(line);
        command
            .env("SUPERP_MANAGER", self.url())
            .current_dir(&self.folder);
        if self.secure {
            command.env("SUPERP_TLS", "alice");
        }
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// What a command that succeeds prints.
    fn text(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.text(&format!("-j {line}"))).unwrap()
    }

    /// What a command that fails says.
    fn refused(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(1), "{line}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_superp"));
    command.env_remove("SUPERP_MANAGER").args(line.split(' '));
    command
}

/// What a program that succeeds has printed, without its last spaces.
fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn where_no_manager_is_it_is_told_and_what_helps() {
    let output = command("fabric --manager http://127.0.0.1:1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        lines(&String::from_utf8(output.stderr).unwrap()),
        [
            "superp: no manager at http://127.0.0.1:1: Connection refused",
            "hint: start it there: superp-cm serve; or name another: --manager URL, or SUPERP_MANAGER in the environment",
        ]
    );
    let output = command("-j fabric nodes --manager http://127.0.0.1:1")
        .output()
        .unwrap();
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        object["error"],
        "no manager at http://127.0.0.1:1: Connection refused"
    );
    assert!(object["hint"].as_str().unwrap().starts_with("start it"));
    let output = command("fabric events -f --manager nonsense")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.starts_with("superp: nonsense is not the URL of a manager\n"),
        "{text}"
    );
}

#[test]
fn fabric_is_planned_applied_and_shown() {
    let lab = Lab::new(2);
    assert_eq!(
        lab.text("fabric"),
        "no fabric: superp fabric apply FILE makes one\n"
    );
    let plan = lab.text("fabric plan lab.toml");
    assert!(
        plan.contains("\n  connection 1 to xpu2, there 1, sunh\n"),
        "{plan}"
    );
    let differences = lab.text("fabric diff lab.toml");
    assert!(
        differences.starts_with("configuration 1\n  the fabric lab is new\n"),
        "{differences}"
    );
    assert_eq!(
        lab.json("fabric status")["phase"],
        "empty",
        "nothing was changed"
    );
    assert_eq!(lab.text("fabric apply lab.toml --wait 180"), differences);
    assert_eq!(
        lines(&lab.text("fabric status")),
        [
            "fabric lab: running, configuration 1 (started: 1), term 1",
            "2 of 2 nodes ready, 1 of 1 connections running",
        ]
    );
    assert_eq!(
        lab.text("fabric apply lab.toml"),
        "nothing changes: configuration 1 is this one\n"
    );
    let agent = |number| format!("{}.{number}:7779", lab.net);
    let width = agent(1).len();
    assert_eq!(
        lines(&lab.text("fabric nodes")),
        [
            format!(
                "NODE  ADDRESS    {:<width$}  STATE    CONFIG  CONNS",
                "AGENT"
            ),
            format!("xpu1  10.23.0.1  {}  started       1      1", agent(1)),
            format!("xpu2  10.23.0.2  {}  started       1      1", agent(2)),
        ]
    );
    assert_eq!(
        lines(&lab.text("fabric nodes xpu2")),
        [
            "node xpu2: started, configuration 1, 1 connections".to_owned(),
            format!("  address 10.23.0.2, agent {}", agent(2)),
            "  port eth0, sunh,udp".to_owned(),
            format!(
                "  host {}, superp-agent test, module test, protocol 0.4",
                agent(2)
            ),
        ]
    );
    assert_eq!(
        lines(&lab.text("fabric conns xpu1")),
        [
            "CONNECTION               NODE  STATE        NODE  STATE        WANTED  LIFE",
            "1@10.23.0.1-1@10.23.0.2  xpu1  established  xpu2  established  run        0",
        ]
    );
    let nodes = lab.json("fabric nodes");
    assert_eq!(nodes[1]["state"], "started");
    let refused = lab.refused("fabric nodes xpu9");
    assert_eq!(
        lines(&refused),
        [
            "superp: there is no node xpu9",
            "hint: superp fabric nodes, superp fabric conns and superp fabric job list tell what there is",
        ]
    );
    assert!(lab.world.wrong.lock().unwrap().is_empty());
}

#[test]
fn file_with_mistakes_is_refused_with_line_cause_and_remedy() {
    let lab = Lab::new(2);
    let wrong = format!("{}window = 7\n", lab.file());
    std::fs::write(lab.folder.join("wrong.toml"), wrong).unwrap();
    for verb in ["plan", "diff", "apply"] {
        let refused = lab.refused(&format!("fabric {verb} wrong.toml"));
        assert_eq!(
            lines(&refused)[..4],
            [
                "superp: wrong.toml:9:10: window 7 is outside 16..1024",
                "  9 | window = 7",
                "    |          ^",
                "    = write 16 to 1024 packets",
            ],
            "{refused}"
        );
    }
    assert_eq!(
        lab.refused("fabric apply absent.toml"),
        "superp: absent.toml: No such file or directory\n"
    );
    assert_eq!(lab.json("fabric status")["generation"], 0);
}

#[test]
fn connections_are_drained_restarted_and_reset_and_it_is_waited_for() {
    let lab = Lab::new(3);
    lab.text("fabric apply lab.toml --wait 180");
    let drained = lab.json("fabric drain xpu3 --wait 180");
    let states = |conns: &Value| -> Vec<String> {
        let ends = conns.as_array().unwrap().iter().map(|conn| {
            let end = |side: usize| conn["ends"][side]["state"].as_str().unwrap().to_owned();
            format!("{} {} {}", end(0), end(1), conn["life"])
        });
        ends.collect()
    };
    assert_eq!(states(&drained), ["stopped stopped 0"; 2]);
    assert_eq!(lab.json("fabric status")["connections_running"], 1);
    // What is drained stays so.
    lab.text("fabric apply lab.toml");
    let key = drained[0]["connection"].as_str().unwrap();
    let again = lab.json("fabric restart xpu3 --wait 180");
    assert_eq!(states(&again), ["established established 1"; 2]);
    let again = lab.json(&format!("fabric restart {key} --wait 180"));
    assert_eq!(states(&again), ["established established 2"]);
    assert_eq!(lab.text("fabric drain --all --wait 180"), "");
    assert_eq!(lab.json("fabric status")["connections_running"], 0);
    lab.text("fabric restart --all --wait 180");
    lab.text(&format!("fabric reset {key}"));
    let refused = lab.refused("fabric drain 9@10.0.0.1-9@10.0.0.2");
    assert!(
        refused.contains("there is no connection 9@10.0.0.1-9@10.0.0.2"),
        "{refused}"
    );
    let refused = lab.refused("fabric restart @");
    assert!(
        refused.contains("\"@\" is not a connection: write CID@ADDRESS-CID@ADDRESS"),
        "{refused}"
    );
    lab.text("fabric shutdown --wait 180");
    assert_eq!(lab.json("fabric status")["phase"], "down");
    assert!(lab.world.wrong.lock().unwrap().is_empty());
}

#[test]
fn what_is_waited_for_in_vain_is_told_by_name() {
    let lab = Lab::new(1);
    let file = lab.file().replace("xpu[1-1]", "xpu[1-2]");
    std::fs::write(lab.folder.join("more.toml"), file).unwrap();
    let refused = lab.refused("fabric apply more.toml --wait 0");
    assert!(
        refused.contains("superp: not done within 0 s\n"),
        "{refused}"
    );
    assert!(
        refused.contains("\nnode xpu2: waiting for READY"),
        "{refused}"
    );
    assert!(
        refused.contains("\nhint: it goes on: superp fabric status"),
        "{refused}"
    );
}

#[test]
fn events_are_followed_from_one_manager_to_the_next() {
    let mut lab = Lab::new(2);
    let mut follow = lab
        .command("-j fabric events --follow --after 0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    lab.text("fabric apply lab.toml --wait 180");
    let mut events = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut event = || -> Value { serde_json::from_str(&events.next().unwrap().unwrap()).unwrap() };
    let mut told = vec![event()];
    assert_eq!(told[0]["kind"], "apply");
    lab.end();
    let mut said = BufReader::new(follow.stderr.take().unwrap()).lines();
    assert_eq!(
        said.next().unwrap().unwrap(),
        "superp: the manager is gone; waiting until it is back"
    );
    lab.start();
    lab.text("fabric restart --all --wait 180");
    lab.text("fabric shutdown --wait 180");
    while told.last().unwrap()["text"] != "every node is shut down, as requested" {
        told.push(event());
    }
    follow.kill().unwrap();
    follow.wait().unwrap();
    let kept: Vec<Value> = lab
        .text("-j fabric events")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(told, kept[..told.len()]);
    let text = lab.text("fabric events --after 1");
    assert!(text.lines().count() >= kept.len() - 1, "{text}");
    let text = lab.text("fabric events --follow --after 1 --count 1");
    let second = kept[1]["text"].as_str().unwrap();
    assert_eq!(text.lines().count(), 1);
    assert!(
        text.starts_with("     2 ") && text.ends_with(&format!(": {second}\n")),
        "{text}"
    );
}

#[test]
fn manager_with_tls_is_asked_with_a_certificate_whose_role_decides() {
    let lab = Lab::with(2, true);
    lab.text("fabric apply lab.toml --wait 180");
    assert_eq!(
        lines(&lab.refused("fabric --tls bob apply lab.toml")),
        ["superp: bob has the role viewer; POST /v1/apply needs the role operator"]
    );
    lab.text("fabric --tls bob diff lab.toml");
    let told = |line: &str| line.split_once("Z ").unwrap().1.to_owned();
    let audit = lab.text("fabric audit --tls bob");
    assert_eq!(
        audit.lines().map(told).collect::<Vec<_>>(),
        [
            "operator alice POST /v1/apply: 200, configuration 1",
            "viewer   bob POST /v1/apply: 403, \
             bob has the role viewer; POST /v1/apply needs the role operator",
        ]
    );
    assert_eq!(lab.json("fabric audit --after 1")["who"], "bob");
    let clear = lab.url().replace("https", "http");
    let refused = lab.refused(&format!("fabric --manager {clear}"));
    assert!(refused.contains("write https://"), "{refused}");
    let mut nobody = lab.command("fabric");
    let output = nobody.env_remove("SUPERP_TLS").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("a certificate is needed"), "{text}");
    let past = SystemTime::now() - Duration::from_secs(60);
    lab.issue("carol", Role::Operator, Vec::new(), past);
    let refused = lab.refused("fabric --tls carol");
    assert!(
        refused.contains("carol/tls.crt: the certificate of carol expired "),
        "{refused}"
    );
    let absent = lab.refused("fabric --tls absent");
    assert!(absent.contains("absent/tls.crt: No such file"), "{absent}");
}
