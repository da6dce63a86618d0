//! The program's own pages in memory: how large they are, and which are let go.
//!
//! Memory is taken in small pages, but for buffers of large reads and writes. Huge pages save a memory store a miss in each
//! read of its many gigabytes; a daemon that lives in some dozens of megabytes only becomes larger by what it does not use
//! of them.
//!
//! Owns that, and letting go of code that is not in use: what only the start needed, and what the kernel maps around each
//! page that is (64 KiB, `fault_around_bytes` of Linux's `mm/memory.c`), would count as this process's memory for good. What
//! is used again is still in the page cache, and mapped anew with the first touch.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Huge pages where they were asked for stay, of Linux's `linux/prctl.h` (v6.18).
const EXCEPT_ADVISED: libc::c_ulong = 1 << 1;

/// Takes memory in small pages from now on, as do the programs that this process starts, but for what [`in_huge_pages`] was
/// asked for. A kernel that knows only all or nothing is told so where it gives huge pages unasked.
pub fn take_small_pages() {
    let disable = |flags: libc::c_ulong| {
        // SAFETY: it takes numbers and changes no memory.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, flags, 0, 0) == 0 }
    };
    let unasked = || {
        let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        enabled.is_ok_and(|enabled| enabled.contains("[always]"))
    };
    // Where the kernel refuses, that is all that happens.
    let _ = disable(EXCEPT_ADVISED) || unasked() && disable(0);
}

/// Asks for huge pages under this memory; where the kernel has none, small ones do.
pub fn in_huge_pages(memory: &mut [MaybeUninit<u8>]) {
    // SAFETY: the advice changes no content.
    let _ = unsafe { libc::madvise(memory.as_mut_ptr().cast(), memory.len(), libc::MADV_HUGEPAGE) };
}

/// Takes that back: what is taken there from now on is taken in small pages.
pub fn in_small_pages(memory: &mut [MaybeUninit<u8>]) {
    // SAFETY: the advice changes no content.
    let _ = unsafe { libc::madvise(memory.as_mut_ptr().cast(), memory.len(), libc::MADV_NOHUGEPAGE) };
}

/// Lets go of all code, the running one's included.
pub(crate) fn let_code_go() -> io::Result<()> {
    for code in std::fs::read_to_string("/proc/self/maps")?.lines().filter_map(code_of_file) {
        // SAFETY: the mapping is a file's and nobody may write to it, so each page comes back with the same content. One
        // that a debugger has changed loses that, as it would with its mapping.
        let done =
            unsafe { libc::madvise(std::ptr::without_provenance_mut(code.start), code.len(), libc::MADV_DONTNEED) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The addresses of a mapping (a line of proc(5)'s `maps`), if it is code from a file that cannot be written to.
fn code_of_file(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_whitespace();
    let (addresses, permissions) = (fields.next()?, fields.next()?);
    let path = fields.nth(3)?;
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    (permissions == "r-xp" && path.starts_with('/')).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_from_files_counts() {
        let line = "56478f157000-56478fd51000 r-xp 0020c000 fe:00 1234 /usr/bin/loligo";
        assert_eq!(code_of_file(line), Some(0x5647_8f15_7000..0x5647_8fd5_1000));
        for other in [
            "56478fd51000-56478fd87000 r--p 00e05000 fe:00 1234 /usr/bin/loligo",
            "56478fd51000-56478fd87000 rwxp 00e05000 fe:00 1234 /usr/bin/loligo",
            "7ffd9a5f2000-7ffd9a5f4000 r-xp 00000000 00:00 0 [vdso]",
            "20000000000-20040000000 rw-p 00000000 00:00 0",
            "",
        ] {
            assert_eq!(code_of_file(other), None, "{other}");
        }
    }

    #[test]
    fn code_that_was_let_go_runs_on() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
            text.split(' ').nth(2).and_then(|pages| pages.parse::<u64>().ok()).expect("pages of files")
        };
        let before = resident();
        let_code_go().expect("the kernel takes the advice");
        assert!(resident() < before, "less than {before} pages");
        assert_eq!(metadata_of_here(), metadata_of_here());
    }

    fn metadata_of_here() -> usize {
        crate::host::metadata("here").len()
    }
}
