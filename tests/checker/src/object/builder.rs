//! Makes epoch objects by hand, for tests.
use super::{HEAD, Link, TAIL};
use crate::pointer::{EpochName, digest, hex};

/// A section to be written.
pub(crate) struct Part {
    pub(crate) shard: u32,
    pub(crate) sequence: u64,
    pub(crate) parent: Option<Link>,
    pub(crate) offset: i64,
}

/// An object as bytes, and the links to its sections.
pub(crate) struct Built {
    pub(crate) bytes: Vec<u8>,
    pub(crate) epoch: EpochName,
    pub(crate) links: Vec<(u32, Link)>,
}

impl Built {
    pub(crate) fn pointer(&self, job_hash: &str, store: &str) -> String {
        format!("k1;{job_hash};{store};{};{}", self.epoch, hex(&self.digest()))
    }

    fn digest(&self) -> [u8; 16] {
        digest(super::footer_body(&self.bytes).expect("built by us"))
    }
}

pub(crate) fn build(job: &str, stage: &str, n: u64, last: &[(u32, Link)], parts: &[Part]) -> Built {
    let epoch = EpochName { incarnation: 7, n };
    let mut bytes = header(job, stage, epoch, last);
    let mut footer = vec![1];
    footer.extend((bytes.len() as u64).to_be_bytes());
    footer.extend(digest(&bytes));
    footer.extend((parts.len() as u32).to_be_bytes());
    let mut links = Vec::new();
    for part in parts {
        let section = section(part);
        let (offset, length) = (bytes.len() as u64, section.len() as u64);
        footer.extend(part.shard.to_be_bytes());
        for number in [part.sequence, offset, length] {
            footer.extend(number.to_be_bytes());
        }
        footer.extend(digest(&section));
        links.push((
            part.shard,
            Link {
                epoch,
                digest: [0; 16],
                sequence: part.sequence,
                offset,
                length,
            },
        ));
        bytes.extend(section);
    }
    links.iter_mut().for_each(|(_, link)| link.digest = digest(&footer));
    let length = footer.len() as u32;
    bytes.extend(footer);
    bytes.extend(length.to_be_bytes());
    bytes.extend(TAIL);
    Built { bytes, epoch, links }
}

fn header(job: &str, stage: &str, epoch: EpochName, last: &[(u32, Link)]) -> Vec<u8> {
    let mut body = Vec::new();
    text(&mut body, job);
    text(&mut body, stage);
    body.extend(epoch.incarnation.to_be_bytes());
    body.extend(epoch.n.to_be_bytes());
    body.extend([0; 1 + 8 + 4 + 4 + 1]);
    body.extend(1u16.to_be_bytes());
    text(&mut body, "in");
    body.extend([9; 16 + 4]);
    body.extend(1u16.to_be_bytes());
    body.extend(1u16.to_be_bytes());
    ["op", "state", "u64"].iter().for_each(|t| text(&mut body, t));
    body.extend(1u16.to_be_bytes());
    body.extend(0u16.to_be_bytes());
    text(&mut body, "out");
    body.extend((last.len() as u32).to_be_bytes());
    for (shard, link) in last {
        body.extend(shard.to_be_bytes());
        push_link(&mut body, link);
    }
    let mut header = HEAD.to_vec();
    header.extend((body.len() as u32).to_be_bytes());
    header.extend(body);
    header
}

fn section(part: &Part) -> Vec<u8> {
    let mut bytes = part.shard.to_be_bytes().to_vec();
    bytes.extend(part.sequence.to_be_bytes());
    bytes.push(part.parent.is_some().into());
    if let Some(link) = &part.parent {
        push_link(&mut bytes, link);
    }
    bytes.extend(1u32.to_be_bytes());
    text(&mut bytes, "in");
    // The partition that feeds the shard.
    bytes.extend(part.shard.to_be_bytes());
    bytes.extend(part.offset.to_be_bytes());
    bytes.extend(3i32.to_be_bytes());
    bytes.extend([0; 40]);
    bytes
}

fn push_link(bytes: &mut Vec<u8>, link: &Link) {
    bytes.extend(link.epoch.incarnation.to_be_bytes());
    bytes.extend(link.epoch.n.to_be_bytes());
    bytes.extend(link.digest);
    for number in [link.sequence, link.offset, link.length] {
        bytes.extend(number.to_be_bytes());
    }
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u16).to_be_bytes());
    bytes.extend(text.as_bytes());
}
