//! Data as its users see it, and where it lies: what is kept, what is changed in place, what is copied, what is let go.

use super::*;

const B: usize = BLOCK as usize;

fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i / 7) as u8).collect::<Vec<_>>().into()
}

fn parts(data: &Data) -> usize {
    let parts = data.blocks.values().filter(|block| matches!(block, Block::Part { .. })).count();
    assert_eq!(data.buffers.values().map(|b| b.used as usize).sum::<usize>(), parts, "parts are counted");
    parts
}

#[test]
fn an_overwrite_leaves_the_blocks_of_a_clone_alone_and_shares_the_rest() {
    for kept in [false, true] {
        let mut a = Data::default();
        match kept {
            true => a.write(0, &Bytes::from(vec![1; 4 * B])),
            false => (0..4).for_each(|i| a.write(i * BLOCK, &Bytes::from(vec![1; B]))),
        }
        let b = a.clone();
        a.write(BLOCK + 5, &Bytes::from_static(&[9; 10]));
        assert_eq!(b.read(BLOCK + 5, BLOCK + 15), vec![1; 10]);
        assert_eq!(a.read(BLOCK + 4, BLOCK + 16).as_ref(), [&[1][..], &[9; 10], &[1]].concat());
        let shared = a.blocks().zip(b.blocks()).filter(|((_, a), (_, b))| a.as_ptr() == b.as_ptr());
        assert_eq!(shared.count(), 3);
    }
}

#[test]
fn a_large_write_is_kept_and_read_where_it_is() {
    let data = pattern(10 * B);
    let mut a = Data::default();
    a.write(100, &data);
    let (from, to) = (B + 9 - 100, 7 * B + 9 - 100);
    let slice = a.read(BLOCK + 9, 7 * BLOCK + 9);
    assert_eq!((slice.as_ptr(), &slice), (data[from..].as_ptr(), &data.slice(from..to)));
    // Its ends are not whole blocks: what spans them is a copy.
    assert_eq!(parts(&a), 9);
    assert_eq!(a.read(0, 100 + data.len() as u64)[100..], data);
    // A hole in the middle, and a block of another write.
    a.discard(3 * BLOCK, 4 * BLOCK);
    a.write(4 * BLOCK, &data.slice(..B));
    let from = 2 * B - 100;
    let expected = [&data[from..from + B], &vec![0; B], &data[..B], &data[from + 3 * B..from + 4 * B]].concat();
    assert_eq!(a.read(2 * BLOCK, 6 * BLOCK), expected);
}

#[test]
fn a_small_write_changes_a_buffer_that_nobody_else_holds() {
    let mut a = Data::default();
    a.write(0, &pattern(8 * B).to_vec().into());
    let before = a.read(0, 8 * BLOCK);
    let place = before.as_ptr();
    // A reader holds it: the block is copied.
    a.write(5, &Bytes::from_static(b"one"));
    assert_eq!((parts(&a), before), (7, pattern(8 * B)));
    a.write(BLOCK + 5, &Bytes::from_static(b"two"));
    assert_eq!(parts(&a), 7);
    let after = a.read(BLOCK, 8 * BLOCK);
    assert_eq!(after.as_ptr() as usize, place as usize + B, "it has not moved");
    assert_eq!((&a.read(4, 9)[1..4], &after[5..8], after[8]), (&b"one"[..], &b"two"[..], pattern(8 * B)[B + 8]));
}

#[test]
fn a_read_inside_a_block_is_a_slice_that_a_later_write_leaves_alone() {
    let mut a = Data::default();
    a.write(0, &pattern(B - 100));
    let (first, second) = (a.read(500, 5000), a.read(501, 5001));
    assert_eq!(second.as_ptr() as usize, first.as_ptr() as usize + 1, "neither is a copy");
    a.write(600, &Bytes::from_static(b"new"));
    assert_eq!((&first, &second), (&pattern(B).slice(500..5000), &pattern(B).slice(501..5001)));
    assert_eq!(a.read(599, 604).as_ref(), [&pattern(B)[599..600], b"new", &pattern(B)[603..604]].concat());
    drop((first, second));
    // Nobody holds it any more: it is changed where it is.
    let place = a.read(0, 2000).as_ptr();
    a.write(700, &Bytes::from_static(b"again"));
    assert_eq!(a.read(0, 2000).as_ptr(), place);
    // What it does not hold reads as zeros, up to what was asked for.
    a.truncate(2000);
    assert_eq!(a.read(1000, 3000)[..], [&a.read(1000, 2000)[..], &[0; 1000]].concat());
}

#[test]
fn a_buffer_of_which_little_is_used_is_let_go() {
    let data = Bytes::from(vec![3; 8 * B]);
    let filled = || {
        let mut d = Data::default();
        d.write(0, &data);
        d
    };
    let mut a = filled();
    (0..4).for_each(|i| a.write(i * BLOCK, &Bytes::from_static(b"small")));
    assert_eq!(parts(&a), 4, "half of it is worth keeping");
    a.write(4 * BLOCK, &Bytes::from_static(b"small"));
    assert_eq!((parts(&a), a.buffers.len()), (0, 0));
    let mut b = filled();
    b.truncate(2 * BLOCK + 1);
    assert_eq!((parts(&b), b.read(0, 2 * BLOCK + 1)), (0, data.slice(..2 * B + 1)));
    let mut c = filled();
    c.discard(BLOCK, 8 * BLOCK);
    assert_eq!((parts(&c), c.read(0, 2).as_ref()), (0, &[3, 3][..]));
    let mut d = filled();
    d.write(BLOCK, &Bytes::from(vec![4; 7 * B]));
    assert_eq!((parts(&d), d.read(BLOCK - 1, BLOCK + 1).as_ref()), (7, &[3, 4][..]));
    let mut e = filled();
    e.write(0, &Bytes::from(vec![5; 8 * B]));
    assert_eq!((parts(&e), e.buffers.len()), (8, 1));
    e.truncate(0);
    assert_eq!((parts(&e), e.buffers.len()), (0, 0));
}

/// Random changes to data and to a plain vector must come to the same, and never change what was read before.
#[test]
fn it_is_a_vector_of_bytes() {
    let mut state = 7u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let (mut data, mut model, mut held) = (Data::default(), vec![0u8; 12 * B], Vec::new());
    for step in 0..400u32 {
        let (start, len) = (random(11 * BLOCK), random(if step % 3 == 0 { 9 * BLOCK } else { 9000 }) + 1);
        let end = (start + len).min(12 * BLOCK);
        let range = start as usize..end as usize;
        match random(8) {
            0 => {
                data.discard(start, end);
                model[range].fill(0);
            }
            1 => {
                data.truncate(start);
                model[start as usize..].fill(0);
            }
            2 => held.push((data.read(start, end), model[range].to_vec(), data.clone(), model.clone())),
            _ => {
                data.write(start, &vec![step as u8; range.len()].into());
                model[range].fill(step as u8);
            }
        }
        parts(&data);
        assert_eq!(data.read(0, 12 * BLOCK), model, "step {step}");
    }
    for (read, expected, clone, model) in held {
        assert_eq!((read, clone.read(0, 12 * BLOCK)), (expected.into(), model.into()));
    }
}
