//! stub
use crate::worker::ThreadControl;
use crate::{Captured, LoadError, LoadOptions, LoadResult};
use std::net::SocketAddr;
use std::sync::Arc;
#[derive(Debug)]
pub(crate) struct Script;
#[derive(Debug)]
pub(crate) struct ThreadScript;
#[derive(Debug)]
pub(crate) struct FinishedScript;
impl Script {
    pub(crate) fn load(
        options: &LoadOptions,
        _: SocketAddr,
        _: &[Arc<ThreadControl>],
    ) -> Result<Option<(Script, Vec<ThreadScript>)>, LoadError> {
        match options.script {
            Some(_) => Err(LoadError::Script("scripts come with the next commit".into())),
            None => Ok(None),
        }
    }
    pub(crate) fn finish(self, _: Vec<ThreadScript>) -> FinishedScript {
        FinishedScript
    }
}
impl ThreadScript {
    pub(crate) fn makes_requests(&self) -> bool {
        false
    }
    pub(crate) fn wants_responses(&self) -> bool {
        false
    }
    pub(crate) fn has_delay(&self) -> bool {
        false
    }
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 80))
    }
    pub(crate) fn requests_per_send(&self) -> usize {
        1
    }
    pub(crate) fn request(&mut self, _: &mut Vec<u8>) -> Result<(), LoadError> {
        Ok(())
    }
    pub(crate) fn response(&mut self, _: u16, _: &Captured) -> Result<(), LoadError> {
        Ok(())
    }
    pub(crate) fn delay_ms(&mut self) -> Result<f64, LoadError> {
        Ok(0.0)
    }
}
impl FinishedScript {
    pub(crate) fn done(self, _: &LoadResult) -> Result<(), LoadError> {
        Ok(())
    }
}
