// SPDX-License-Identifier: GPL-2.0 OR MIT
//! hello: two programs greet each other, and one writes into the other's memory.
//!
//!     hello serve PEER-ADDRESS        waits for one caller
//!     hello call PEER-ADDRESS
//!
//! The caller sends a message. The server answers with the place of its memory. The caller writes
//! there, with an immediate, which tells the server that all bytes are in place. Needs a connection
//! with extensions between the two. The C library has the same example; either talks to the other.

use std::error::Error;
use std::net::IpAddr;
use superp_verbs::{
    Access, Address, Completion, CompletionQueue, Context, Memory, MemoryRegion, Opcode, QueuePair,
    QueuePairOptions, ReceiveRequest, WorkRequest,
};

/// Numbers of the queue pairs.
const SERVER: u32 = 7001;
const CALLER: u32 = 7002;
const BYTES: usize = 8192;
/// The immediate.
const DONE: u32 = 42;

struct End {
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
    /// One that came before the one that was waited for.
    other: Option<Completion>,
}

impl End {
    fn new(peer: IpAddr, number: u32, peer_number: u32) -> superp_verbs::Result<Self> {
        let context = Context::open()?;
        let cq = context.create_completion_queue(16)?;
        let options = QueuePairOptions {
            number,
            ..Default::default()
        };
        let qp = context.create_queue_pair(&cq, &cq, &options)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let region = context.register(Memory::new(BYTES)?, access, None)?;
        qp.connect(&Address::new(peer, peer_number))?;
        Ok(Self {
            cq,
            qp,
            region,
            other: None,
        })
    }

    /// A buffer for the next message, at the start of the memory.
    fn receive(&mut self) -> superp_verbs::Result<()> {
        let buffer = self.region.part(0, 64)?;
        Ok(self.qp.post_receive([ReceiveRequest::new(buffer)])?)
    }

    /// The next completion of this kind; it sleeps until there is one.
    fn complete(&mut self, opcode: Opcode) -> Result<Completion, Box<dyn Error>> {
        loop {
            let next = match self.other.take_if(|other| other.opcode == opcode) {
                Some(other) => other,
                None => self.cq.wait(None)?.ok_or("no end was set")?,
            };
            next.result?;
            if next.opcode == opcode {
                return Ok(next);
            }
            self.other = Some(next);
        }
    }

    /// The start of the memory.
    fn bytes<const N: usize>(&self) -> std::io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.region.memory().read(0, &mut bytes)?;
        Ok(bytes)
    }
}

fn serve(mut end: End) -> Result<(), Box<dyn Error>> {
    end.receive()?;
    println!("ready");
    let message = end.complete(Opcode::Receive)?;
    let text = &end.bytes::<64>()?[..message.length as usize];
    println!("received: {}", String::from_utf8_lossy(text));
    end.receive()?;
    let place = end.region.rma_addr().to_ne_bytes();
    end.qp.post_send([WorkRequest::send_inline(&place)?])?;
    end.complete(Opcode::Send)?;
    let written = end.complete(Opcode::ReceiveWrite)?;
    if end.bytes::<BYTES>()? != [b'x'; BYTES] {
        return Err("a wrong byte".into());
    }
    let immediate = written.immediate.ok_or("no immediate")?;
    println!("written: {} bytes, immediate {immediate}", written.length);
    Ok(())
}

fn call(mut end: End) -> Result<(), Box<dyn Error>> {
    end.receive()?;
    end.qp
        .post_send([WorkRequest::send_inline(b"hello, memory")?])?;
    end.complete(Opcode::Send)?;
    end.complete(Opcode::Receive)?;
    let place = u64::from_ne_bytes(end.bytes()?);
    end.region.memory().write(0, &[b'x'; BYTES])?;
    let all = end.region.part(0, BYTES as u32)?;
    end.qp
        .post_send([WorkRequest::write(all, place).immediate(DONE)])?;
    end.complete(Opcode::Write)?;
    println!("written: {BYTES} bytes to {place:#x}");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", peer] => serve(End::new(peer.parse()?, SERVER, CALLER)?),
        ["call", peer] => call(End::new(peer.parse()?, CALLER, SERVER)?),
        _ => Err("usage: hello serve|call PEER-ADDRESS".into()),
    }
}
