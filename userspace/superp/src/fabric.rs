// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp fabric`: a client of the connection manager.

mod args;
mod job;
mod proxy;

pub(crate) use args::{Fabric, FabricVerb};

use crate::failure::Failure;
use crate::out::{self, Out, Table};
use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};
use superp_control::manager::{
    AuditRecord, Connection, ConnectionEnd, Event, FabricStatus, ManagerClient, ManagerError,
    NodeStatus, Phase, Scope, Streamed, Verb, Want,
};
use superp_control::{Capabilities, ConnectionState};
use time::format_description::well_known::Rfc3339;
use time::OffsetDateTime;

/// How often it is looked at what is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// How long a manager that is gone is left alone.
const AWAY: Duration = Duration::from_secs(1);

impl From<ManagerError> for Failure {
    fn from(error: ManagerError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            ManagerError::Unreachable(_) => failure.hint(
                "start it there: superp-cm serve; or name another: --manager URL, or SUPERP_MANAGER in the environment",
            ),
            ManagerError::Refused(problem) if problem.status == 404 => {
                failure.hint("superp fabric nodes, superp fabric conns and superp fabric job list tell what there is")
            }
            ManagerError::Refused(_) | ManagerError::Answer(_) => failure,
        }
    }
}

/// A manager that is asked one thing at a time.
struct Manager {
    client: ManagerClient,
    runtime: tokio::runtime::Runtime,
}

impl Manager {
    fn wait<T>(&self, answer: impl Future<Output = Result<T, ManagerError>>) -> Result<T, Failure> {
        Ok(self.runtime.block_on(answer)?)
    }
}

pub(crate) fn run(args: Fabric, out: &mut Out) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let manager = Manager {
        client: ManagerClient::at(args.manager, args.tls.as_deref())?,
        runtime: runtime.map_err(|error| Failure::io("waiting for answers", &error))?,
    };
    let client = &manager.client;
    match args.verb.unwrap_or(FabricVerb::Status) {
        FabricVerb::Status => {
            let status = manager.wait(client.fabric())?;
            out.either(&status, |out| fabric(&status, out))
        }
        FabricVerb::Nodes { name: None } => {
            let list = manager.wait(client.nodes())?;
            out.either(&list, |out| nodes(&list, out))
        }
        FabricVerb::Nodes { name: Some(name) } => {
            let one = manager.wait(client.node(&name))?;
            out.either(&one, |out| node(&one, out))
        }
        FabricVerb::Conns { of } => {
            let list = manager.wait(client.connections(&of.unwrap_or(Scope::Fabric)))?;
            out.either(&list, |out| conns(&list, out))
        }
        FabricVerb::Plan { file } => {
            let (path, text) = read(&file)?;
            let plan = manager.wait(client.plan(&path, text))?;
            out.either(&plan, |out| out.line(plan.to_string().trim_end()))
        }
        FabricVerb::Diff { file } => {
            let (path, text) = read(&file)?;
            let plan = manager.wait(client.plan(&path, text))?;
            out.either(&plan, |out| out.line(plan.changes().trim_end()))
        }
        FabricVerb::Apply { file, wait } => {
            let (path, text) = read(&file)?;
            let plan = manager.wait(client.apply(&path, text))?;
            out.either(&plan, |out| out.line(plan.changes().trim_end()))?;
            out.flush()?;
            let done = until(wait.wait, || manager.phase(Phase::Running));
            done.map_err(Failure::without_json)
        }
        FabricVerb::Drain { what, wait } => {
            let scope = what.scope();
            manager.wait(client.command(&scope, Verb::Stop))?;
            until(wait.wait, || manager.conns_not(&scope, is_down))?;
            out.done(&manager.wait(client.connections(&scope))?)
        }
        FabricVerb::Restart { what, wait } => {
            let scope = what.scope();
            manager.wait(client.command(&scope, Verb::Restart))?;
            until(wait.wait, || manager.conns_not(&scope, runs_again))?;
            out.done(&manager.wait(client.connections(&scope))?)
        }
        FabricVerb::Reset { connection } => {
            let scope = Scope::Connection(connection);
            manager.wait(client.command(&scope, Verb::Reset))?;
            out.done(&manager.wait(client.connections(&scope))?)
        }
        FabricVerb::Shutdown { wait } => {
            manager.wait(client.shutdown())?;
            until(wait.wait, || manager.phase(Phase::Down))?;
            out.done(&manager.wait(client.fabric())?)
        }
        FabricVerb::Job(verb) => job::run(&manager, verb, out),
        FabricVerb::Proxy(args) => proxy::run(&manager, &args, out),
        FabricVerb::Audit { after } => manager.audit(after, out),
        FabricVerb::Events {
            after,
            follow: false,
            ..
        } => manager.events(after.unwrap_or(0), out),
        FabricVerb::Events { after, count, .. } => manager.follow(after, count, out),
    }
}

fn read(file: &Path) -> Result<(String, String), Failure> {
    let path = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| Failure::io(&path, &error))?;
    Ok((path, text))
}

impl Manager {
    /// Those of the connections that are not so, a sentence each.
    fn conns_not(
        &self,
        scope: &Scope,
        so: fn(&Connection) -> bool,
    ) -> Result<Vec<String>, Failure> {
        let conns = self.wait(self.client.connections(scope))?;
        let others = conns.iter().filter(|conn| !so(conn)).map(|conn| {
            let ends = conn
                .ends
                .iter()
                .map(|end| format!("{} {}", end.node, state(end)));
            let ends: Vec<_> = ends.collect();
            format!("connection {}: {}", conn.connection, ends.join(", "))
        });
        Ok(others.collect())
    }

    /// What is waited for until the fabric is in a phase; while booting also until what was applied is
    /// started.
    fn phase(&self, phase: Phase) -> Result<Vec<String>, Failure> {
        let status = self.wait(self.client.fabric())?;
        let mut waiting = status.waiting;
        let (running, all) = (status.connections_running, status.connections);
        let started = phase != Phase::Running || running == all;
        if waiting.is_empty() && status.phase != phase {
            waiting.push(format!("the fabric is {}", status.phase));
        }
        if waiting.is_empty() && !started {
            waiting.push(format!("{running} of {all} connections running"));
        }
        Ok(waiting)
    }

    /// Tells all that there is after a number, a page at a time.
    fn pages<T, P: Future<Output = Result<Vec<T>, ManagerError>>>(
        &self,
        mut after: u64,
        page: impl Fn(u64) -> P,
        number: impl Fn(&T) -> u64,
        mut tell: impl FnMut(&T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        loop {
            let list = self.wait(page(after))?;
            let Some(last) = list.last() else {
                return Ok(());
            };
            after = number(last);
            list.iter().try_for_each(&mut tell)?;
        }
    }

    fn events(&self, after: u64, out: &mut Out) -> Result<(), Failure> {
        let page = |after| self.client.events(after);
        self.pages(after, page, |event| event.seq, |event| tell(event, out))
    }

    fn audit(&self, after: u64, out: &mut Out) -> Result<(), Failure> {
        let page = |after| self.client.audit(after);
        let tell = |record: &AuditRecord| out.either(record, |out| out.line(audited(record)));
        self.pages(after, page, |record| record.seq, tell)
    }

    fn follow(
        &self,
        mut after: Option<u64>,
        count: Option<u64>,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let mut told = 0;
        let mut stream = self.wait(self.client.stream(after))?;
        while count.is_none_or(|count| told < count) {
            match self.wait(stream.next())? {
                Some(Streamed::Event(event)) => {
                    tell(&event, out)?;
                    // Whoever reads a pipe wants each when it happens.
                    out.flush()?;
                    told += 1;
                }
                Some(Streamed::Lost(lost)) => {
                    eprintln!("superp: {lost} events before the next one are not kept any more");
                }
                None => {
                    eprintln!("superp: the manager is gone; waiting until it is back");
                    after = stream.last().or(after);
                    stream = self.again(after)?;
                }
            }
        }
        Ok(())
    }

    /// Another stream, as soon as there is a manager.
    fn again(&self, after: Option<u64>) -> Result<superp_control::manager::EventStream, Failure> {
        loop {
            std::thread::sleep(AWAY);
            match self.runtime.block_on(self.client.stream(after)) {
                Err(ManagerError::Unreachable(_)) => {}
                stream => return Ok(stream?),
            }
        }
    }
}

/// Waits, if that is asked for, until nothing is waited for.
fn until(
    seconds: Option<u64>,
    waiting: impl Fn() -> Result<Vec<String>, Failure>,
) -> Result<(), Failure> {
    let Some(seconds) = seconds else {
        return Ok(());
    };
    let begin = Instant::now();
    let mut told = Vec::new();
    loop {
        let waiting = waiting()?;
        if waiting.is_empty() {
            return Ok(());
        }
        if begin.elapsed() >= Duration::from_secs(seconds) {
            let text = format!("not done within {seconds} s\n{}", waiting.join("\n"));
            return Err(
                Failure::new(text).hint("it goes on: superp fabric status tells how far it is")
            );
        }
        if told != waiting {
            waiting
                .iter()
                .for_each(|line| eprintln!("{}", out::printable(line)));
            told = waiting;
        }
        std::thread::sleep(LOOK);
    }
}

/// Nothing is under way any more.
fn is_down(conn: &Connection) -> bool {
    conn.ends.iter().all(|end| {
        matches!(
            end.state,
            Some(ConnectionState::Stopped | ConnectionState::Created | ConnectionState::Broken)
        )
    })
}

/// The restart is complete.
fn runs_again(conn: &Connection) -> bool {
    let established = |end: &ConnectionEnd| end.state == Some(ConnectionState::Established);
    conn.want == Want::Run && conn.ends.iter().all(established)
}

fn state(end: &ConnectionEnd) -> String {
    end.state
        .map_or("unknown".into(), |state| state.to_string())
}

/// An event as a line.
fn tell(event: &Event, out: &mut Out) -> Result<(), Failure> {
    out.either(event, |out| out.line(sentence(event)))
}

fn sentence(event: &Event) -> String {
    let second = event.time_ms / 1000;
    let about = event.node.as_deref().or(event.connection.as_deref());
    let about = about.map_or(String::new(), |about| format!(" {about}"));
    format!(
        "{:>6} {:02}:{:02}:{:02}.{:03}Z {:<10}{about}: {}",
        event.seq,
        second / 3600 % 24,
        second / 60 % 60,
        second % 60,
        event.time_ms % 1000,
        event.kind,
        event.text
    )
}

/// A record of the audit log as a line.
fn audited(record: &AuditRecord) -> String {
    let nanos = i128::from(record.time_ms) * 1_000_000;
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanos);
    let time = time.ok().and_then(|time| time.format(&Rfc3339).ok());
    let role = record.role.as_deref().unwrap_or("-");
    let status = match record.status {
        Some(status) => status.to_string(),
        None => "no answer".into(),
    };
    let result = record.result.as_deref();
    let result = result.map_or(String::new(), |result| format!(", {result}"));
    format!(
        "{:>6} {} {role:<8} {} {}: {status}{result}",
        record.seq,
        time.unwrap_or_default(),
        record.who,
        record.request
    )
}

fn fabric(status: &FabricStatus, out: &mut Out) -> Result<(), Failure> {
    if status.phase == Phase::Empty {
        return out.line("no fabric: superp fabric apply FILE makes one");
    }
    out.line(format_args!(
        "fabric {}: {}, configuration {} (started: {}), term {}",
        status.name, status.phase, status.generation, status.started, status.term
    ))?;
    out.line(format_args!(
        "{} of {} nodes ready, {} of {} connections running",
        status.nodes_ready, status.nodes, status.connections_running, status.connections
    ))?;
    status.waiting.iter().try_for_each(|line| out.line(line))
}

fn nodes(list: &[NodeStatus], out: &mut Out) -> Result<(), Failure> {
    let mut table = Table::new(&["NODE", "ADDRESS", "AGENT", "STATE", ">CONFIG", ">CONNS"]);
    for node in list {
        table.row([
            node.name.clone(),
            node.address.clone(),
            node.agent.clone(),
            node_state(node),
            node.generation
                .map_or("-".into(), |number| number.to_string()),
            node.connections.to_string(),
        ]);
    }
    table.print(out, "no nodes")?;
    for node in list {
        if let Some(error) = &node.error {
            out.line(format_args!("{}: {error}", node.name))?;
        }
    }
    Ok(())
}

fn node_state(node: &NodeStatus) -> String {
    let state = node
        .state
        .map_or("unknown".into(), |state| state.to_string());
    match node.leaving {
        true => format!("{state}, leaving"),
        false => state,
    }
}

fn node(node: &NodeStatus, out: &mut Out) -> Result<(), Failure> {
    let generation = node.generation.map_or("no configuration".into(), |number| {
        format!("configuration {number}")
    });
    out.line(format_args!(
        "node {}: {}, {generation}, {} connections",
        node.name,
        node_state(node),
        node.connections
    ))?;
    if let Some(error) = &node.error {
        out.line(format_args!("  {error}"))?;
    }
    out.line(format_args!(
        "  address {}, agent {}",
        node.address, node.agent
    ))?;
    for port in &node.ports {
        let encap = match (port.sunh, port.udp) {
            (true, true) => "sunh,udp",
            (true, false) => "sunh",
            (false, _) => "udp",
        };
        out.line(format_args!("  port {}, {encap}", port.dev))?;
    }
    if let Some(space) = node.rma {
        out.line(format_args!("  RMA addresses {space}"))?;
    }
    let told = node.capabilities.clone().map(serde_json::from_value);
    if let Some(Ok(told)) = told {
        let told: Capabilities = told;
        out.line(format_args!(
            "  host {}, superp-agent {}, module {}, protocol {}",
            told.host, told.agent_version, told.module.version, told.protocol.version
        ))?;
    }
    Ok(())
}

fn conns(list: &[Connection], out: &mut Out) -> Result<(), Failure> {
    let mut table = Table::new(&[
        "CONNECTION",
        "NODE",
        "STATE",
        "NODE",
        "STATE",
        "WANTED",
        ">LIFE",
    ]);
    for conn in list {
        let mut row = vec![conn.connection.clone()];
        for end in &conn.ends {
            row.extend([end.node.clone(), state(end)]);
        }
        row.extend([conn.want.to_string(), conn.life.to_string()]);
        table.row(row);
    }
    table.print(out, "no connections")?;
    for conn in list {
        for end in &conn.ends {
            if let Some(cause) = &end.cause {
                out.line(format_args!("{} at {}: {cause}", conn.connection, end.node))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_one_line_each() {
        let mut record = AuditRecord {
            seq: 7,
            time_ms: 1_795_318_509_042,
            who: "alice".into(),
            role: Some("operator".into()),
            request: "POST /v1/apply".into(),
            status: Some(200),
            result: Some("configuration 3".into()),
        };
        assert_eq!(
            audited(&record),
            "     7 2026-11-22T03:35:09.042Z operator alice POST /v1/apply: 200, configuration 3"
        );
        (record.role, record.who) = (None, "loopback".into());
        (record.status, record.result) = (None, None);
        assert_eq!(
            audited(&record),
            "     7 2026-11-22T03:35:09.042Z -        loopback POST /v1/apply: no answer"
        );
    }

    #[test]
    fn events_are_one_line_each() {
        let event = Event {
            seq: 7,
            time_ms: ((24 + 13) * 3600 + 5 * 60 + 9) * 1000 + 42,
            node: Some("xpu03".into()),
            connection: None,
            kind: "node".into(),
            text: "answers again".into(),
        };
        assert_eq!(
            sentence(&event),
            "     7 13:05:09.042Z node       xpu03: answers again"
        );
    }
}
