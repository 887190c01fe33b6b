//! Tests of what a disk keeps and loses.

use super::*;
use crate::tree::Content;

fn file(disk: &mut Disk, name: &str, data: &[u8]) -> Ino {
    let node = Node::new(Kind::File(Content::default()), 0o644, 0, 0);
    let ino = disk.make(place(ROOT, OsStr::new(name)), node);
    disk.write(ino, 0, data);
    ino
}

fn read(disk: &Disk, name: &str) -> Option<Vec<u8>> {
    let ino = disk.find(ROOT, OsStr::new(name))?;
    disk.node(ino)?
        .content()
        .map(|content| content.read(0, 1 << 20))
}

fn rename(disk: &mut Disk, from: &str, to: &str) {
    let (from, to) = (place(ROOT, OsStr::new(from)), place(ROOT, OsStr::new(to)));
    disk.change(Change::Rename { from, to });
}

#[test]
fn a_power_cut_loses_what_was_not_synced() {
    let mut disk = Disk::new();
    let kept = file(&mut disk, "kept", b"old");
    disk.fsync(kept);
    disk.write(kept, 0, b"new");
    file(&mut disk, "lost", b"x");
    assert_eq!(
        disk.cut_power(None),
        Lost {
            changes: 1,
            pages: 2,
            files: 2,
            kept: 0
        }
    );
    assert_eq!(
        (read(&disk, "kept"), read(&disk, "lost")),
        (Some(b"old".to_vec()), None)
    );
}

#[test]
fn an_fsync_commits_every_earlier_change_and_no_other_data() {
    let mut disk = Disk::new();
    file(&mut disk, "a", b"data");
    rename(&mut disk, "a", "b");
    let other = file(&mut disk, "other", b"x");
    disk.fsync(other);
    rename(&mut disk, "b", "c");
    disk.cut_power(None);
    // As after a power cut of ext4: the name is there, its data is not, and the file is empty.
    assert_eq!((read(&disk, "b"), read(&disk, "c")), (Some(vec![]), None));
}

#[test]
fn a_failed_fsync_leaves_pages_that_no_later_one_writes() {
    let mut disk = Disk::new();
    let ino = file(&mut disk, "a", &[1; 2 * PAGE]);
    disk.fail_fsync(ino);
    disk.write(ino, PAGE as u64, &[2; PAGE]);
    disk.fsync(ino);
    assert_eq!(
        read(&disk, "a").map(|data| data[0]),
        Some(1),
        "the cache has it"
    );
    disk.cut_power(None);
    let data = read(&disk, "a").expect("the file was created before the fsync");
    assert_eq!((data.len(), data[0], data[PAGE]), (2 * PAGE, 0, 2));
}

#[test]
fn time_makes_changes_and_pages_durable() {
    let mut disk = Disk::new();
    file(&mut disk, "a", b"data");
    let now = Instant::now();
    disk.age(now + COMMIT_AFTER);
    assert_eq!(disk.unsynced(), (0, 1));
    disk.age(now + WRITE_BACK_AFTER);
    disk.cut_power(None);
    assert_eq!(read(&disk, "a"), Some(b"data".to_vec()));
}

#[test]
fn a_torn_write_keeps_sectors_and_a_prefix_of_the_changes() {
    let mut sizes = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut disk = Disk::new();
        let ino = file(&mut disk, "a", &[0; PAGE]);
        disk.fsync(ino);
        disk.write(ino, 0, &[1; PAGE]);
        file(&mut disk, "first", b"1");
        file(&mut disk, "second", b"2");
        disk.cut_power(Some(&mut Random(seed)));
        let names = (
            read(&disk, "first").is_some(),
            read(&disk, "second").is_some(),
        );
        assert_ne!(names, (false, true), "changes are durable in order");
        let data = read(&disk, "a").expect("it was synced");
        let written = data.iter().filter(|byte| **byte == 1).count();
        assert!(data[..written].iter().all(|byte| *byte == 1) && written % SECTOR == 0);
        sizes.insert(written);
    }
    assert!(sizes.len() > 5 && sizes.contains(&0) && sizes.contains(&PAGE));
}

#[test]
fn an_open_file_without_a_name_keeps_its_space_until_it_is_closed() {
    let mut disk = Disk::new();
    let ino = file(&mut disk, "a", &[1; PAGE]);
    disk.open(ino);
    disk.change(Change::Remove {
        at: place(ROOT, OsStr::new("a")),
    });
    assert_eq!(disk.free(), CAPACITY - PAGE as u64);
    disk.close(ino);
    assert_eq!((disk.free(), disk.node(ino).is_none()), (CAPACITY, true));
}

#[test]
fn links_and_renames_lose_no_file() {
    let mut disk = Disk::new();
    let ino = file(&mut disk, "a", b"1");
    disk.change(Change::Link {
        ino,
        at: place(ROOT, OsStr::new("b")),
    });
    file(&mut disk, "c", b"2");
    rename(&mut disk, "c", "a");
    assert_eq!(
        (read(&disk, "a"), read(&disk, "b")),
        (Some(b"2".to_vec()), Some(b"1".to_vec()))
    );
    let (one, other) = (place(ROOT, OsStr::new("a")), place(ROOT, OsStr::new("b")));
    disk.change(Change::Exchange { one, other });
    disk.sync();
    disk.cut_power(None);
    assert_eq!(
        (read(&disk, "a"), read(&disk, "b")),
        (Some(b"1".to_vec()), Some(b"2".to_vec()))
    );
}

#[test]
fn a_flipped_bit_is_on_the_disk_too() {
    let mut disk = Disk::new();
    let ino = file(&mut disk, "a", b"\x00");
    disk.sync();
    assert_eq!(disk.flip(ino, 0, 3), Some(8));
    disk.cut_power(None);
    assert_eq!(read(&disk, "a"), Some(vec![8]));
}
