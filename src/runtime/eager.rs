//! At-least-once: a thread that sends outputs as they are produced, outside of any transaction.
use crate::sink::EagerSender;
use crate::types::output::OutputFrames;
use crossbeam_channel::{Receiver, Sender, bounded, select};
use std::thread::JoinHandle;

/// Frames in flight between the lanes and the sender; each is what one batch produced.
const QUEUE: usize = 16;

/// The sender's thread.
pub(super) struct Eager {
    /// Where lanes hand over.
    pub frames: Sender<OutputFrames>,
    drain: Sender<Sender<Result<(), String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Eager {
    pub fn start(sender: Box<dyn EagerSender>) -> std::io::Result<Eager> {
        let (frames, incoming) = bounded(QUEUE);
        let (drain, drains) = bounded(1);
        let thread = std::thread::Builder::new()
            .name("eager".to_owned())
            .spawn(move || run(sender, &incoming, &drains))?;
        Ok(Eager {
            frames,
            drain,
            thread: Some(thread),
        })
    }

    /// Waits until everything that lanes have handed over so far was acknowledged. Called after every lane's share is in.
    pub fn drain(&self) -> Result<(), String> {
        let (reply, answer) = bounded(1);
        self.drain.send(reply).map_err(|_| "the sender has ended".to_owned())?;
        answer.recv().unwrap_or_else(|_| Err("the sender has ended".to_owned()))
    }
}

fn run(
    mut sender: Box<dyn EagerSender>,
    incoming: &Receiver<OutputFrames>,
    drains: &Receiver<Sender<Result<(), String>>>,
) {
    let mut failed: Option<String> = None;
    loop {
        select! {
            recv(incoming) -> frames => match frames {
                Ok(frames) => send(sender.as_mut(), &frames, &mut failed),
                Err(_) => return,
            },
            recv(drains) -> reply => {
                let Ok(reply) = reply else { return };
                // The lanes' shares are in: what they handed over before lies in the channel.
                while let Ok(frames) = incoming.try_recv() {
                    send(sender.as_mut(), &frames, &mut failed);
                }
                let result = match &failed {
                    Some(why) => Err(why.clone()),
                    None => sender.drain().map_err(|e| e.to_string()),
                };
                let _ = reply.send(result);
            }
        }
    }
}

fn send(sender: &mut dyn EagerSender, frames: &OutputFrames, failed: &mut Option<String>) {
    for out in frames.iter() {
        if failed.is_some() {
            return;
        }
        *failed = match out {
            Ok(out) => sender.send(&out).err().map(|e| e.to_string()),
            Err(e) => Some(e.to_string()),
        };
    }
}

impl Drop for Eager {
    fn drop(&mut self) {
        let (frames, _) = bounded(0);
        let (drain, _) = bounded(0);
        self.frames = frames;
        self.drain = drain;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
