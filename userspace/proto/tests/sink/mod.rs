// SPDX-License-Identifier: GPL-2.0 OR MIT

use superp_proto::{Atomic, Block, Code, Immediate, Owner, Segment};

/// An owner that takes everything and does nothing.
pub(crate) struct Sink;

impl Owner for Sink {
    fn write(&mut self, _: u64, _: Block) -> Result<(), Code> {
        Ok(())
    }
    fn read(&mut self, _: u64, _: u32) -> Result<(), Code> {
        Ok(())
    }
    fn atomic(&mut self, _: Atomic) -> Result<u64, Code> {
        Ok(0)
    }
    fn message_to_context(&mut self, _: u16, _: u32, _: u32, _: Block) -> Result<(), Code> {
        Ok(())
    }
    fn message_to_qp(&mut self, _: Segment, _: Block) -> Result<(), Code> {
        Ok(())
    }
    fn immediate(&mut self, _: Immediate) -> Result<(), Code> {
        Ok(())
    }
    fn complete(&mut self, _: u16, _: u8) -> Result<(), Code> {
        Ok(())
    }
    fn aborted(&mut self, _: u16) {}
    fn reply(&mut self, _: u16, _: u64, _: u32, _: u32, _: Block) -> Result<(), Code> {
        Ok(())
    }
}
