//! The file system of the machine.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;
use std::sync::Arc;

use crate::page::page_size_bytes;
use crate::reserve;
use crate::unreadable_pages::MapRegistration;
use crate::{File, FileSystem, LockGuard, Map, MapMode};

/// The pages of one `mincore` call; most records have fewer.
const RESIDENT_PAGES_ASKED: usize = 64;

/// Zeros of one call that extends a file.
const ZEROS_BYTES: usize = 64 << 10;

/// The file in which Linux has the identifier of the boot.
const BOOT_IDENTITY_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// The mode of new files: only the owner has access, because they hold data of users.
const FILE_MODE: u32 = 0o600;
/// The mode of new folders: only the owner has access.
const FOLDER_MODE: u32 = 0o700;

/// The file system of the machine. It has no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFileSystem;

impl FileSystem for SystemFileSystem {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = reserve::open(|| open_or_create(path, true))?;
        Ok(Arc::new(SystemFile { file }))
    }

    fn open(&self, path: &Path, writable: bool) -> io::Result<Arc<dyn File>> {
        let file = reserve::open(|| fs::OpenOptions::new().read(true).write(writable).open(path))?;
        Ok(Arc::new(SystemFile { file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in reserve::open(|| fs::read_dir(directory))? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        let is_new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let new: Vec<_> = directory.ancestors().take_while(is_new).collect();
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(directory)?;
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
        for made in new.into_iter().rev().filter_map(|folder| options.open(folder).ok()) {
            // The path may lead to another folder by now, which is not to be given away.
            inherit_owner(&made, Path::new(&format!("/proc/self/fd/{}/..", made.as_raw_fd())));
        }
        Ok(())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        reserve::open(|| fs::File::open(directory))?.sync_all()
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn lock(&self, path: &Path) -> io::Result<LockGuard> {
        lock_file(open_or_create(path, false)?, libc::LOCK_EX)
    }

    fn lock_to_read(&self, path: &Path) -> io::Result<LockGuard> {
        // NFS gives an exclusive lock only to those who can write.
        match fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                lock_file(open_or_create(path, false)?, libc::LOCK_SH)
            }
            opened => lock_file(opened?, libc::LOCK_SH),
        }
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        let path = CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: all bit patterns, including zero, are valid for this plain C structure.
        let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the path ends in a zero byte, and the structure is writable.
        if unsafe { libc::statvfs(path.as_ptr(), &raw mut facts) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
    }

    fn mount_identity(&self, directory: &Path) -> [u8; 16] {
        let boot = fs::read_to_string(BOOT_IDENTITY_PATH).ok();
        let digits = boot.map(|text| text.trim().replace('-', ""));
        // A text of other length is none of the kernel's.
        let digits = digits.filter(|digits| digits.len() == 32 && !digits.starts_with('+'));
        let boot = digits.and_then(|digits| u128::from_str_radix(&digits, 16).ok());
        let (Some(boot), Some(mount)) = (boot, mount_of(directory)) else { return [0; 16] };
        (boot ^ u128::from_be_bytes(mount)).to_be_bytes()
    }
}

/// Opens a file for reading and writing; creates it if necessary.
fn open_or_create(path: &Path, truncate: bool) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    match options.clone().create_new(true).open(path) {
        // Its owner stays: behind a symbolic link, it may be any file of the machine.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.create(true).truncate(truncate).open(path)
        }
        created => {
            let file = created?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            inherit_owner(&file, folder.unwrap_or(Path::new(".")));
            Ok(file)
        }
    }
}

/// Makes root give what it has created to the owner of the folder: a service has to open its store
/// again after an operator's look at it.
fn inherit_owner(made: &fs::File, folder: &Path) {
    // SAFETY: the call reads a number of the process.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    // Containers and network file systems may refuse it; then root's files are as good as can be.
    if let Ok(owner) = fs::metadata(folder)
        && owner.uid() != 0
    {
        let _ = fchown(made, Some(owner.uid()), Some(owner.gid()));
    }
}

/// Locks a file at once, or not at all.
fn lock_file(file: fs::File, kind: libc::c_int) -> io::Result<LockGuard> {
    // SAFETY: the descriptor is open for the whole call.
    let outcome = unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    // A process with an open store needs descriptors even if connections take all others.
    reserve::begin();
    Ok(LockGuard::new(Box::new(file)))
}

/// The number of the mount of `directory`, and that of its device; none if they are unknown. From
/// 6.8 on, kernels do not reuse the numbers of former mounts.
fn mount_of(directory: &Path) -> Option<[u8; 16]> {
    /// `STATX_MNT_ID_UNIQUE` of Linux 6.8.
    const UNIQUE_MOUNT: libc::c_uint = 0x4000;
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    // SAFETY: all bit patterns, including zero, are valid for this plain C structure.
    let mut facts: libc::statx = unsafe { std::mem::zeroed() };
    let mask = libc::STATX_MNT_ID | UNIQUE_MOUNT;
    // SAFETY: the path ends in a zero byte, and the structure is writable.
    let outcome = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, mask, &raw mut facts) };
    if outcome != 0 || facts.stx_mask & mask == 0 {
        return None;
    }
    let mut mount = [0; 16];
    mount[..8].copy_from_slice(&facts.stx_mnt_id.to_le_bytes());
    mount[8..12].copy_from_slice(&facts.stx_dev_major.to_le_bytes());
    mount[12..].copy_from_slice(&facts.stx_dev_minor.to_le_bytes());
    Some(mount)
}

struct SystemFile {
    file: fs::File,
}

impl SystemFile {
    /// Extends the file to `length` bytes by writing zeros, on a file system that cannot allocate
    /// space.
    fn write_zeros(&self, length: u64) -> io::Result<()> {
        let zeros = [0; ZEROS_BYTES];
        let mut end = self.length()?;
        while end < length {
            let piece = (length - end).min(zeros.len() as u64);
            self.write_all_at(&zeros[..piece as usize], end)?;
            end += piece;
        }
        Ok(())
    }

    /// Gives the system advice about its page cache. A failure is ignored.
    fn advise(&self, offset: u64, length: u64, advice: libc::c_int) {
        if let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) {
            // SAFETY: the descriptor is open for the length of the call.
            unsafe { libc::posix_fadvise(self.file.as_raw_fd(), offset, length, advice) };
        }
    }
}

impl File for SystemFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let length = libc::off_t::try_from(length).map_err(io::Error::other)?;
        loop {
            // SAFETY: the descriptor is open for the whole call.
            match unsafe { libc::posix_fallocate(self.file.as_raw_fd(), 0, length) } {
                0 => return Ok(()),
                libc::EINTR => {}
                // The C library may leave this to its caller, for example musl.
                libc::EOPNOTSUPP => return self.write_zeros(length as u64),
                error => return Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn drop_cached(&self, offset: u64, length: usize) {
        let page = page_size_bytes() as u64;
        let begin = offset & !(page - 1);
        let end = offset.saturating_add(length as u64);
        let length = end.checked_next_multiple_of(page).unwrap_or(end) - begin;
        self.advise(begin, length, libc::POSIX_FADV_DONTNEED);
    }

    fn will_need(&self, offset: u64, length: usize) {
        // A length of zero would mean the rest of the file.
        if length > 0 {
            self.advise(offset, length as u64, libc::POSIX_FADV_WILLNEED);
        }
    }

    fn map(&self, length: u64, mode: MapMode) -> io::Result<Arc<dyn Map>> {
        Ok(Arc::new(SystemMap::new(&self.file, length, mode)?))
    }
}

struct SystemMap {
    pointer: *mut u8,
    length: usize,
    writable: bool,
    /// The registration that keeps bad pages from ending the process. It ends before the map does.
    watch: Option<MapRegistration>,
}

// SAFETY: the map is plain memory that this value owns; by the contract of the trait, its users
// synchronise writes.
unsafe impl Send for SystemMap {}
// SAFETY: as above; the value itself has no interior state.
unsafe impl Sync for SystemMap {}

impl SystemMap {
    fn new(file: &fs::File, length: u64, mode: MapMode) -> io::Result<SystemMap> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        if length as u64 > file.metadata()?.len() {
            let text = "the map would reach beyond the end of the file";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        if length == 0 {
            let pointer = std::ptr::NonNull::<u64>::dangling().as_ptr().cast();
            return Ok(SystemMap { pointer, length, writable: false, watch: None });
        }
        let writable = mode == MapMode::Write;
        let protection =
            if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let descriptor = file.as_raw_fd();
        // SAFETY: a new shared map at an address that the kernel chooses; nothing is replaced.
        let pointer = unsafe {
            libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, descriptor, 0)
        };
        if pointer == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let watch = MapRegistration::begin(pointer.cast(), length, writable);
        let map = SystemMap { pointer: pointer.cast(), length, writable, watch };
        if mode == MapMode::ReadRandom {
            map.expect_random();
        }
        Ok(map)
    }

    /// Gives the system advice about pages, or makes it load them. Kernels before 5.14 refuse the
    /// latter, and then the pages are loaded at the first access. A failure is ignored.
    fn advise(&self, offset: usize, length: usize, advice: libc::c_int) {
        let begin = (offset & !(page_size_bytes() - 1)).min(self.length);
        let end = offset.saturating_add(length).min(self.length);
        if begin < end {
            // SAFETY: the range is within the map and begins on a page. The map is shared, so that
            // written bytes belong to the file, even if the pages are unmapped.
            unsafe { libc::madvise(self.pointer.add(begin).cast(), end - begin, advice) };
        }
    }
}

impl Map for SystemMap {
    fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    fn length(&self) -> usize {
        self.length
    }

    fn prefault(&self, offset: usize, length: usize) {
        let advice =
            if self.writable { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
        self.advise(offset, length, advice);
    }

    fn bring_in(&self, offset: usize, length: usize) {
        self.advise(offset, length, libc::MADV_POPULATE_READ);
    }

    fn prefer_large_pages(&self, length: usize) {
        self.advise(0, length, libc::MADV_HUGEPAGE);
    }

    fn settle(&self) {
        self.advise(0, self.length, libc::MADV_DONTNEED);
    }

    fn expect_random(&self) {
        self.advise(0, self.length, libc::MADV_RANDOM);
    }

    fn unreadable_in(&self, offset: usize, length: usize) -> Option<usize> {
        self.watch.as_ref().and_then(|watch| watch.first_in(offset, length))
    }

    /// Uses `mincore`, which reports the page cache for files that the process may write.
    fn is_resident(&self, offset: usize, length: usize) -> bool {
        let page = page_size_bytes();
        let mut begin = (offset & !(page - 1)).min(self.length);
        let end = offset.saturating_add(length).min(self.length);
        let mut pages = [0_u8; RESIDENT_PAGES_ASKED];
        while begin < end {
            let length = (end - begin).min(page * RESIDENT_PAGES_ASKED);
            // SAFETY: the range is within the map and begins on a page, and there is a byte for
            // each page of it.
            let outcome = unsafe {
                libc::mincore(self.pointer.add(begin).cast(), length, pages.as_mut_ptr())
            };
            // If the system does not report them, the pages count as resident.
            if outcome != 0 {
                return true;
            }
            if pages[..length.div_ceil(page)].iter().any(|page| page & 1 == 0) {
                return false;
            }
            begin += length;
        }
        true
    }
}

impl Drop for SystemMap {
    fn drop(&mut self) {
        drop(self.watch.take());
        if self.length > 0 {
            // SAFETY: the map was made with this address and length, and is unmapped once.
            unsafe { libc::munmap(self.pointer.cast(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::lchown;

    use super::*;

    #[test]
    fn bytes_written_by_map_are_read_by_call() {
        let folder = tempfile::tempdir().unwrap();
        let file = SystemFileSystem.create(&folder.path().join("a")).unwrap();
        file.allocate(8192).unwrap();
        let map = file.map(8192, MapMode::Write).unwrap();
        map.prefer_large_pages(usize::MAX);
        map.bring_in(100, 5000);
        map.prefault(100, 5000);
        // SAFETY: the offset is within the map, and nobody else uses it.
        unsafe { map.pointer().add(5000).write(7) };
        map.settle();
        file.sync().unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 5000).unwrap();
        assert_eq!((byte, map.bytes()[5000]), ([7], 7), "what was written is in both");
        map.expect_random();
        file.will_need(4000, 0);
        file.will_need(5000, 100);
        file.will_need(u64::MAX, usize::MAX);
        file.drop_cached(u64::MAX, usize::MAX);
        assert!(map.is_resident(5000, 100), "it was just written");
        assert!(map.is_resident(0, usize::MAX) && map.is_resident(9000, 1), "beyond is cut off");
        assert!(file.map(8193, MapMode::Read).is_err());
    }

    /// Regression: on a file system that cannot allocate space, such as NFS before 4.2, nothing
    /// could be written by a program with musl.
    #[test]
    fn a_file_is_extended_by_zeros_without_allocation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let file = SystemFile { file: fs::File::create(&path).unwrap() };
        file.write_all_at(b"first", 0).unwrap();
        let length = 3 * ZEROS_BYTES + 7;
        file.write_zeros(length as u64).unwrap();
        file.write_zeros(10).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.len() == length && bytes.starts_with(b"first"));
        assert!(bytes[5..].iter().all(|byte| *byte == 0));
    }

    /// Regression: for a long record, the system was asked only about the first pages.
    #[test]
    fn the_last_page_of_many_counts_like_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let file = SystemFileSystem.create(&folder.path().join("a")).unwrap();
        let (page, pages) = (page_size_bytes(), 4 * RESIDENT_PAGES_ASKED);
        // The written pages are in memory, and those of the hole behind them are not.
        let written = page * (RESIDENT_PAGES_ASKED + 8);
        file.write_all_at(&vec![7; written], 0).unwrap();
        file.set_length((page * pages) as u64).unwrap();
        let map = file.map((page * pages) as u64, MapMode::Read).unwrap();
        assert!(map.is_resident(0, written));
        assert!(!map.is_resident(page * (pages - 1), 1), "nobody has read the hole");
        assert!(!map.is_resident(0, page * pages));
        assert!(!map.is_resident(written - page, page * (pages / 2)));
    }

    /// Regression: new files had the mode of the process's umask, mostly readable for all users.
    #[test]
    fn new_files_and_folders_are_accessible_only_by_their_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path().join("one/two");
        SystemFileSystem.create_directory(&within).unwrap();
        let (file, lock) = (within.join("a"), within.join("LOCK"));
        SystemFileSystem.create(&file).unwrap();
        drop(SystemFileSystem.lock(&lock).unwrap());
        for (path, mode) in [
            (folder.path().join("one"), FOLDER_MODE),
            (within, FOLDER_MODE),
            (file, FILE_MODE),
            (lock, FILE_MODE),
        ] {
            let made = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(made, mode, "{}", path.display());
        }
    }

    /// Regression: what root created in the folder of a service, the service could not open.
    #[test]
    fn new_files_and_folders_belong_to_the_owner_of_their_folder() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let foreign = other.path().join("foreign");
        fs::write(&foreign, "").unwrap();
        let owner = |path: &Path| fs::symlink_metadata(path).unwrap().uid();
        let before = owner(&foreign);
        // Only root can give folders away.
        let _ = lchown(folder.path(), Some(4_321), Some(4_321));
        let within = folder.path().join("one/two");
        SystemFileSystem.create_directory(&within).unwrap();
        let (file, lock) = (within.join("a"), within.join("LOCK"));
        SystemFileSystem.create(&file).unwrap();
        drop(SystemFileSystem.lock(&lock).unwrap());
        for path in [&folder.path().join("one"), &within, &file, &lock] {
            assert_eq!(owner(path), owner(folder.path()), "{}", path.display());
        }
        // A link of the folder's owner gives nobody another file of root.
        let link = within.join("link");
        std::os::unix::fs::symlink(&foreign, &link).unwrap();
        SystemFileSystem.create(&link).unwrap();
        assert_eq!(owner(&foreign), before);
    }

    #[test]
    fn a_lock_is_held_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        let guard = SystemFileSystem.lock(&path).unwrap();
        let refused = SystemFileSystem.lock(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(guard);
        SystemFileSystem.lock(&path).unwrap();
    }

    #[test]
    fn readers_share_a_lock_with_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        let guards = [(); 2].map(|()| SystemFileSystem.lock_to_read(&path).unwrap());
        let refused = SystemFileSystem.lock(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(guards);
        let _guard = SystemFileSystem.lock(&path).unwrap();
        let refused = SystemFileSystem.lock_to_read(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    }

    /// Regression: a lock file that its user could only read could not be locked to read. The
    /// exclusive lock still needs a file that can be written, as root can write any.
    #[test]
    fn a_file_that_can_only_be_read_is_locked_to_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        fs::OpenOptions::new().create_new(true).write(true).mode(0o400).open(&path).unwrap();
        let _guard = SystemFileSystem.lock_to_read(&path).unwrap();
        let refused = SystemFileSystem.lock(&path).unwrap_err().kind();
        assert!(matches!(refused, io::ErrorKind::WouldBlock | io::ErrorKind::PermissionDenied));
    }

    #[test]
    fn mounts_have_different_identities() {
        let (root, other) = (Path::new("/"), Path::new("/proc"));
        let identity = SystemFileSystem.mount_identity(root);
        assert_ne!(identity, [0; 16]);
        assert_eq!(identity, SystemFileSystem.mount_identity(root));
        assert_ne!(identity, SystemFileSystem.mount_identity(other));
        assert_eq!(SystemFileSystem.mount_identity(Path::new("/no such folder")), [0; 16]);
    }
}
