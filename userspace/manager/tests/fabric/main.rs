// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The manager's program among agents that speak the real interface over TCP, on 127.0.0.0/8.

mod agent;
mod enrolment;
mod etcd;
mod jobs;
mod leaders;
mod observe;
mod page;
mod revoke;
mod secure;
mod skew;

use agent::{Agent, Crash, World};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use superp_control::manager::{Connection, Event, FabricStatus, NodeStatus, Phase, Plan, Want};
use superp_control::ConnectionState;
use superp_tls::{Live, Role, Tls};

/// Nothing here takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(180);

/// A fabric of agents, and a manager that can be killed.
struct Lab {
    world: Arc<World>,
    agents: Vec<Arc<Agent>>,
    net: String,
    folder: PathBuf,
    manager: Arc<Mutex<Option<Child>>>,
    /// With TLS, the operator's.
    tls: Option<Tls>,
    /// The store, if it is not SQLite.
    etcd: Option<etcd::Server>,
    http: reqwest::Client,
}

impl Lab {
    /// So many agents, and a manager.
    async fn new(count: usize) -> Self {
        Self::with(count, false).await
    }

    /// The same, with TLS or without.
    async fn with(count: usize, secure: bool) -> Self {
        Self::on(count, secure, None).await
    }

    /// The same, on this store if it is not SQLite.
    async fn on(count: usize, secure: bool, etcd: Option<etcd::Server>) -> Self {
        static LABS: AtomicU32 = AtomicU32::new(1);
        let lab = LABS.fetch_add(1, Ordering::SeqCst);
        let process = std::process::id();
        // Addresses of its own, whatever else runs on this machine.
        let net = format!("127.{}.{lab}", 16 + process % 200);
        let folder = std::env::temp_dir().join(format!("superp-cm-{process}-{lab}"));
        std::fs::create_dir_all(&folder).unwrap();
        let world = Arc::new(World::default());
        let mut agents = Vec::new();
        let tls = secure.then(|| {
            secure::init(&folder, &net);
            secure::issue(&folder, Role::Operator, "alice", None)
        });
        for number in 1..=count {
            let address = format!("{net}.{number}");
            let name = format!("xpu{number:02}");
            let own = secure.then(|| {
                secure::issue(&folder, Role::Agent, &name, Some(&address));
                Live::open(&folder.join(&name), Role::Agent, None).unwrap()
            });
            let agent = Agent::start_with(format!("{address}:7779"), &world, own);
            agents.push(agent.await);
        }
        let manager: Arc<Mutex<Option<Child>>> = Arc::default();
        let victim = manager.clone();
        let kill = move || {
            if let Some(mut child) = victim.lock().unwrap().take() {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        };
        *world.kill.lock().unwrap() = Some(Box::new(kill));
        let lab = Self {
            world,
            agents,
            net,
            folder,
            manager,
            http: secure::http(tls.as_ref()),
            tls,
            etcd,
        };
        lab.start();
        lab
    }

    /// Starts the manager on the store that there is.
    fn start(&self) {
        *self.manager.lock().unwrap() = Some(self.start_at(250));
    }

    /// Starts a manager at this host's number.
    fn start_at(&self, host: u8) -> Child {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("log"))
            .unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_superp-cm"))
            .args(["serve", "--listen", &format!("{}.{host}:7778", self.net)])
            .args(match &self.etcd {
                Some(etcd) => vec![
                    "--etcd".into(),
                    etcd.url.clone().into(),
                    "--lease=3s".into(),
                ],
                None => vec![
                    "--store".into(),
                    self.folder.join("manager.db").into_os_string(),
                ],
            })
            .args(self.tls.as_ref().map(|_| "--tls"))
            .args(self.tls.as_ref().map(|_| self.folder.join("ca/manager")))
            .stderr(Stdio::from(log))
            .spawn();
        child.unwrap()
    }

    fn kill(&self) {
        self.world.kill.lock().unwrap().as_mut().unwrap()();
    }

    fn url(&self, path: &str) -> String {
        let scheme = self.tls.as_ref().map_or("http", |_| "https");
        format!("{scheme}://{}.250:7778/{path}", self.net)
    }

    /// Asks the manager, which is started again if it was killed.
    async fn ask(&self, post: Option<&str>, path: &str) -> reqwest::Response {
        let end = Instant::now() + LIMIT;
        loop {
            if self.manager.lock().unwrap().is_none() {
                self.start();
            }
            let request = match post {
                Some(body) => self.http.post(self.url(path)).body(body.to_owned()),
                None => self.http.get(self.url(path)),
            };
            match request.timeout(LIMIT).send().await {
                Ok(response) => return response,
                Err(error) => assert!(Instant::now() < end, "{error}: {}", self.log()),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> T {
        let end = Instant::now() + LIMIT;
        loop {
            // It can be killed while it answers.
            if let Ok(value) = self.ask(None, path).await.json().await {
                return value;
            }
            assert!(Instant::now() < end, "no answer to {path}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn status(&self) -> FabricStatus {
        self.get("v1/fabric").await
    }

    async fn conns(&self) -> Vec<Connection> {
        self.get("v1/connections").await
    }

    async fn apply(&self, file: &str) -> Plan {
        let response = self.ask(Some(file), "v1/apply").await;
        assert!(
            response.status().is_success(),
            "{}",
            response.text().await.unwrap()
        );
        response.json().await.unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Waits until the manager is in a phase, with nothing left to wait for.
    async fn until(&self, phase: Phase) -> FabricStatus {
        let end = Instant::now() + LIMIT;
        loop {
            let status = self.status().await;
            let running =
                phase != Phase::Running || status.connections_running == status.connections;
            if status.phase == phase && status.waiting.is_empty() && running {
                return status;
            }
            assert!(
                Instant::now() < end,
                "not {phase}: {status:?}\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the manager tells something of its connections.
    async fn until_conns(&self, test: impl Fn(&[Connection]) -> bool) -> Vec<Connection> {
        let end = Instant::now() + LIMIT;
        loop {
            let conns = self.conns().await;
            if test(&conns) {
                return conns;
            }
            assert!(Instant::now() < end, "{conns:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A fabric file: all connected to all, in a partition.
    fn mesh(&self, partition: u32) -> String {
        format!(
            "fabric = \"lab\"\n\
             [[nodes]]\nhosts = \"xpu[01-{count:02}]\"\nagent = \"{net}.{{n}}:7779\"\n\
             address = \"10.23.0.{{n}}\"\nports = [{{ dev = \"eth0\" }}]\n\
             [[connections]]\nmesh = \"xpu[01-{count:02}]\"\npartition = {partition}\n",
            count = self.agents.len(),
            net = self.net
        )
    }

    /// What the kernels hold, without what differs from life to life; both ends are in the same life.
    fn kernels(&self) -> Vec<String> {
        let mut ends: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        let mut text = Vec::new();
        for agent in &self.agents {
            let kernel = agent.lock();
            let configuration = kernel.configuration.as_ref().unwrap();
            text.push(format!(
                "{} {:?} {:?}",
                configuration.generation, configuration.node, configuration.ports
            ));
            for (cid, conn) in &kernel.conns {
                let (one, other) = ((conn.local, *cid), (conn.peer, conn.peer_cid));
                ends.entry((one.min(other), one.max(other)))
                    .or_default()
                    .push(conn.start_psn);
                text.push(format!(
                    "{cid} {} {} {} {}",
                    conn.local, conn.peer, conn.peer_cid, conn.state
                ));
            }
        }
        for (key, lives) in ends {
            assert!(
                lives.len() == 2 && lives[0] == lives[1],
                "{key:?}: {lives:?}"
            );
        }
        text
    }

    fn no_wrongs(&self) {
        let wrong = self.world.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "{wrong:?}\n{}", self.log());
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fabric_boots_and_the_same_file_again_changes_nothing() {
    let lab = Lab::new(4).await;
    let planned: Plan = lab
        .ask(Some(&lab.mesh(0)), "v1/plan")
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(lab.status().await.phase, Phase::Empty);
    assert_eq!(lab.apply(&lab.mesh(0)).await, planned);
    let status = lab.until(Phase::Running).await;
    assert_eq!((status.nodes_ready, status.connections_running), (4, 6));
    let before = (lab.kernels(), lab.world.commands.load(Ordering::SeqCst));
    assert!(!lab.apply(&lab.mesh(0)).await.changed);
    lab.kill();
    assert_eq!(lab.until(Phase::Running).await.term, status.term + 1);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let after = (lab.kernels(), lab.world.commands.load(Ordering::SeqCst));
    assert_eq!(
        after, before,
        "neither the file nor another manager touches what runs"
    );
    let node: NodeStatus = lab.get("v1/nodes/xpu03").await;
    assert_eq!(node.capabilities.unwrap()["protocol"]["version"], "0.4");
    lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_boot_waits_for_is_told_by_name() {
    let lab = Lab::new(2).await;
    let file = lab.mesh(0).replace("xpu[01-02]", "xpu[01-03]");
    lab.apply(&file).await;
    let expected = format!(
        "node xpu03: waiting for READY: connection refused by {}.3:7779",
        lab.net
    );
    let end = Instant::now() + LIMIT;
    loop {
        let status = lab.status().await;
        assert_eq!(status.phase, Phase::Booting);
        if status.nodes_ready == 2 {
            assert_eq!(status.waiting, [expected]);
            break;
        }
        assert!(Instant::now() < end, "{status:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Agent::start(format!("{}.3:7779", lab.net), &lab.world).await;
    assert_eq!(lab.until(Phase::Running).await.connections_running, 3);
    lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_with_a_mistake_is_refused_as_a_whole() {
    let lab = Lab::new(2).await;
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    let before = (lab.kernels(), lab.status().await);
    let file = lab
        .mesh(0)
        .replace("partition = 0", "partition = 0\nwindow = 7");
    let refused = lab.ask(Some(&file), "v1/apply?path=my.toml").await;
    assert_eq!(refused.status(), 422);
    let problem: serde_json::Value = refused.json().await.unwrap();
    assert_eq!(
        problem["detail"],
        "my.toml:10:10: window 7 is outside 16..1024\n  10 | window = 7\n     |          ^\n     = write 16 to 1024 packets\n"
    );
    assert_eq!(lab.status().await.generation, before.1.generation);
    assert_eq!(lab.kernels(), before.0);
    let far = lab
        .mesh(0)
        .replace(&format!("{}.{{n}}", lab.net), "192.0.2.{n}");
    let refused = lab.ask(Some(&far), "v1/apply").await;
    assert_eq!(refused.status(), 409);
    let text = refused.text().await.unwrap();
    assert!(
        text.contains("talks in clear") && text.contains("--plain-tcp"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connection_is_healed_and_told() {
    let lab = Lab::new(3).await;
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    lab.agents[0].break_conn(1);
    let conns = lab
        .until_conns(|conns| conns.iter().any(|conn| conn.life == 1))
        .await;
    lab.until(Phase::Running).await;
    let healed = conns.iter().find(|conn| conn.life == 1).unwrap();
    assert_eq!(healed.connection, "1@10.23.0.1-1@10.23.0.2");
    let events: Vec<Event> = lab.get("v1/events").await;
    let told = |text: &str| events.iter().any(|event| event.text.contains(text));
    assert!(told(
        "connection-state, connection 1 to 10.23.0.2: broken: the peer does not answer"
    ));
    assert!(told(
        "hard error: the peer does not answer; both ends are reset and started again"
    ));
    assert!(
        conns.iter().filter(|conn| conn.life == 1).count() == 1,
        "the others were left alone"
    );
    lab.kernels();
    lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_is_stopped_and_restarted_softly_and_reset() {
    let lab = Lab::new(2).await;
    lab.apply(&lab.mesh(0)).await;
    lab.until(Phase::Running).await;
    let key = lab.conns().await[0].connection.clone();
    let all = |state: ConnectionState| {
        move |conns: &[Connection]| conns[0].ends.iter().all(|end| end.state == Some(state))
    };
    let post = |verb: &str| format!("v1/connections/{key}/{verb}");
    assert_eq!(lab.ask(Some(""), &post("stop")).await.status(), 202);
    lab.until_conns(all(ConnectionState::Stopped)).await;
    assert_eq!(lab.ask(Some(""), &post("restart")).await.status(), 202);
    let again = |life| {
        move |conns: &[Connection]| {
            conns[0].life == life
                && all(ConnectionState::Established)(conns)
                && conns[0].want == Want::Run
        }
    };
    lab.until_conns(again(1)).await;
    assert_eq!(lab.ask(Some(""), &post("restart")).await.status(), 202);
    lab.until_conns(again(2)).await;
    assert_eq!(lab.ask(Some(""), &post("reset")).await.status(), 202);
    lab.until_conns(again(3)).await;
    assert_eq!(
        lab.ask(Some(""), "v1/connections/9@10.0.0.1-9@10.0.0.2/stop")
            .await
            .status(),
        404
    );
    assert_eq!(
        lab.ask(Some(""), "v1/connections/nonsense/stop")
            .await
            .status(),
        404
    );
    lab.no_wrongs();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_manager_on_the_same_store_ends() {
    let lab = Lab::new(1).await;
    lab.status().await;
    let mut second = Command::new(env!("CARGO_BIN_EXE_superp-cm"))
        .args([
            "serve",
            "--listen",
            &format!("{}.251:7778", lab.net),
            "--store",
        ])
        .arg(lab.folder.join("manager.db"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + LIMIT;
    while lab
        .http
        .get(format!("http://{}.251:7778/v1/fabric", lab.net))
        .send()
        .await
        .is_err()
    {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let file = "fabric = \"x\"\n[[nodes]]\nhosts = \"a1\"\nagent = \"127.0.0.1:1\"\naddress = \"10.0.0.1\"\nports = [{ dev = \"e\" }]\n";
    let refused = lab
        .http
        .post(lab.url("v1/apply"))
        .body(file)
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), 500);
    assert!(refused
        .text()
        .await
        .unwrap()
        .contains("a newer manager works with this store"));
    let ended = loop {
        if let Some(ended) = lab
            .manager
            .lock()
            .unwrap()
            .as_mut()
            .unwrap()
            .try_wait()
            .unwrap()
        {
            break ended;
        }
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(!ended.success());
    second.kill().unwrap();
    second.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn document_describes_every_path_and_no_other() {
    let lab = Lab::new(1).await;
    let document: serde_json::Value = lab.get("openapi.json").await;
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 24);
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            let path = path
                .replace("{name}", "x")
                .replace("{connection}", "1@10.0.0.1-1@10.0.0.2");
            let post = (method == "post").then_some("");
            let answer = lab.ask(post, path.trim_start_matches('/')).await;
            assert_ne!(answer.status(), 405, "{method} {path}");
            if path.ends_with("/stream") {
                // It has no end.
                assert_eq!(answer.status(), 200);
                continue;
            }
            // What is not there is told by the thing itself, not by the router.
            let text = answer.text().await.unwrap();
            assert!(!text.contains("openapi.json"), "{method} {path}: {text}");
        }
    }
    let other = lab.ask(None, "v1/nonsense").await;
    assert_eq!(other.status(), 404);
    assert_eq!(other.headers()["content-type"], "application/problem+json");
}

/// Boots a fabric, breaks a connection, shuts the system down, and boots another configuration.
async fn story(crash: Option<(usize, Crash)>) -> (Vec<String>, usize) {
    let lab = Lab::new(3).await;
    *lab.world.crash.lock().unwrap() = crash;
    lab.apply(&lab.mesh(1)).await;
    lab.until(Phase::Running).await;
    let before = lab.conns().await[0].life;
    lab.agents[0].break_conn(1);
    lab.until_conns(|conns| conns[0].life > before).await;
    lab.until(Phase::Running).await;
    // An answer may be lost with the manager: then it is asked again.
    while lab.status().await.phase == Phase::Running {
        lab.ask(Some(""), "v1/shutdown").await;
    }
    lab.until(Phase::Down).await;
    lab.apply(&lab.mesh(2)).await;
    lab.until(Phase::Running).await;
    lab.no_wrongs();
    let commands = lab.world.commands.load(Ordering::SeqCst);
    (lab.kernels(), commands)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manager_agent_or_host_killed_at_every_step_comes_to_the_same_end() {
    let (expected, steps) = story(None).await;
    // Three nodes: configuration, start; two resets and starts; shutdown; configuration, start. A command
    // may be repeated, none can be left out.
    let least = 3 + 3 + 4 + 3 + 3 + 3;
    assert!(steps >= least, "{steps}");
    let steps = least;
    let mut runs = 0;
    for crash in [
        Crash::ManagerBefore,
        Crash::ManagerAfter,
        Crash::AgentBefore,
        Crash::AgentAfter,
        Crash::Host,
        Crash::HostAndFiles,
    ] {
        let begin = Instant::now();
        let mut at = 1;
        while at <= steps {
            // A few at a time: most of it is waiting.
            let batch: Vec<_> = (at..=steps.min(at + 5))
                .map(|at| tokio::spawn(story(Some((at, crash)))))
                .collect();
            at += batch.len();
            for run in batch {
                let (end, commands) = run.await.unwrap();
                assert_eq!(end, expected, "{crash:?}");
                assert!(commands >= steps, "{crash:?}: nothing crashed");
                runs += 1;
            }
        }
        println!(
            "{crash:?} at each of {steps} commands: the same end, {:.1} s",
            begin.elapsed().as_secs_f64()
        );
    }
    assert_eq!(runs, 6 * steps);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_mesh_of_64_agents_boots() {
    full_mesh_of_64_agents(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_mesh_of_64_agents_boots_with_its_state_in_etcd() {
    full_mesh_of_64_agents(Some(etcd::Server::start())).await;
}

async fn full_mesh_of_64_agents(etcd: Option<etcd::Server>) {
    let store = etcd.as_ref().map_or("SQLite", |_| "etcd");
    let lab = Lab::on(64, false, etcd).await;
    lab.status().await;
    let begin = Instant::now();
    lab.apply(&lab.mesh(0)).await;
    let applied = begin.elapsed();
    let status = lab.until(Phase::Running).await;
    assert_eq!(
        (status.nodes_ready, status.connections_running),
        (64, 64 * 63 / 2)
    );
    println!(
        "64 agents, {} connections, {store}: applied in {:.2} s, running after {:.2} s",
        status.connections,
        applied.as_secs_f64(),
        begin.elapsed().as_secs_f64()
    );
    lab.no_wrongs();
}
