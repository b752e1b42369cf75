// SPDX-License-Identifier: GPL-2.0 OR MIT
//! workers: threads that share a context. Each has a queue pair, a completion queue, and an eventfd
//! that tells of that queue only, so that none wakes another.
//!
//!     workers echo PEER-ADDRESS       sends back what comes
//!     workers ask PEER-ADDRESS        asks, and compares the answers

use nix::sys::eventfd::EventFd;
use std::error::Error;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::thread;
use superp_verbs::{
    Access, Address, CompletionQueue, Context, Memory, MemoryRegion, Opcode, QueuePair,
    QueuePairOptions, ReceiveRequest, WorkRequest,
};

const THREADS: u32 = 4;
const QUESTIONS: u64 = 200;
/// Number of the first queue pair at either end.
const FIRST: u32 = 7100;

struct Worker {
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
}

impl Worker {
    fn new(context: &Context, peer: IpAddr, number: u32) -> Result<Self, Box<dyn Error>> {
        let mut cq = context.create_completion_queue(16)?;
        cq.set_event_fd(EventFd::new()?.as_fd())?;
        let options = QueuePairOptions {
            number,
            ..Default::default()
        };
        let qp = context.create_queue_pair(&cq, &cq, &options)?;
        let region = context.register(Memory::new(8)?, Access::LOCAL_WRITE, None)?;
        let mut worker = Self { cq, qp, region };
        worker.receive()?;
        worker.qp.connect(&Address::new(peer, number))?;
        Ok(worker)
    }

    fn receive(&mut self) -> superp_verbs::Result<()> {
        let buffer = self.region.part(0, 8)?;
        Ok(self.qp.post_receive([ReceiveRequest::new(buffer)])?)
    }

    /// The next message; sleeps until it is there.
    fn next(&mut self) -> Result<u64, Box<dyn Error>> {
        loop {
            let completion = self.cq.wait(None)?.ok_or("no end was set")?;
            completion.result?;
            if completion.opcode == Opcode::Receive {
                let mut bytes = [0; 8];
                self.region.memory().read(0, &mut bytes)?;
                self.receive()?;
                return Ok(u64::from_be_bytes(bytes));
            }
        }
    }

    fn send(&mut self, number: u64) -> superp_verbs::Result<()> {
        let message = WorkRequest::send_inline(&number.to_be_bytes())?;
        Ok(self.qp.post_send([message])?)
    }

    fn work(mut self, asks: bool) -> Result<(), Box<dyn Error>> {
        for question in 0..QUESTIONS {
            if asks {
                self.send(question)?;
            }
            let got = self.next()?;
            if got != question {
                return Err(format!("{got} where {question} was expected").into());
            }
            if !asks {
                self.send(got)?;
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (asks, peer) = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["echo", peer] => (false, peer.parse()?),
        ["ask", peer] => (true, peer.parse()?),
        _ => return Err("usage: workers echo|ask PEER-ADDRESS".into()),
    };
    let context = Context::open()?;
    let workers = (FIRST..FIRST + THREADS)
        .map(|number| Worker::new(&context, peer, number))
        .collect::<Result<Vec<_>, _>>()?;
    println!("ready");
    let threads: Vec<_> = workers
        .into_iter()
        .map(|worker| thread::spawn(move || worker.work(asks).map_err(|error| error.to_string())))
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    println!("{THREADS} threads, {QUESTIONS} answers each");
    Ok(())
}
