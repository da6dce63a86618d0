//! The hash that CRUSH draws its randomness from: Robert Jenkins' 96-bit mix over one to five words.
//!
//! Follows Ceph v16.2 `src/crush/hash.c` (`CRUSH_HASH_RJENKINS1`): the seed and the order in which words enter the
//! mix are that file's, the mix itself is Jenkins' public-domain one. Owns nothing else. [`lanes3`] hashes several
//! items at a time in a form that compilers turn into vector instructions; it gives the same values.
//!
//! Read next: `ln`, which turns a hash into an exponentially distributed draw.

/// The only hash that Ceph's maps name (`hash 0 # rjenkins1`); maps with another one are refused.
pub const RJENKINS1: u8 = 0;

/// The golden-ratio-like seed that every hash starts from (`crush_hash_seed`).
const SEED: u32 = 1_315_423_911;
const X: u32 = 231_232;
const Y: u32 = 1232;

/// One word for each of `N` independent hashes.
type Lanes<const N: usize> = [u32; N];

/// One line of the mix: subtracts the other two words, then folds in the shifted third one.
macro_rules! line {
    ($a:ident, $b:ident, $c:ident, $shift:tt, $by:literal) => {
        $a = $a.wrapping_sub($b).wrapping_sub($c) ^ ($c $shift $by);
    };
}

/// Jenkins' mix on each lane.
#[inline(always)]
fn mix<const N: usize>(first: &mut Lanes<N>, second: &mut Lanes<N>, third: &mut Lanes<N>) {
    for lane in 0..N {
        let (mut a, mut b, mut c) = (first[lane], second[lane], third[lane]);
        line!(a, b, c, >>, 13);
        line!(b, c, a, <<, 8);
        line!(c, a, b, >>, 13);
        line!(a, b, c, >>, 12);
        line!(b, c, a, <<, 16);
        line!(c, a, b, >>, 5);
        line!(a, b, c, >>, 3);
        line!(b, c, a, <<, 10);
        line!(c, a, b, >>, 15);
        (first[lane], second[lane], third[lane]) = (a, b, c);
    }
}

/// The hash of one word.
pub fn hash1(a: u32) -> u32 {
    let mut hash = [SEED ^ a];
    let (mut a, mut b, mut x, mut y) = ([a], [a], [X], [Y]);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    hash[0]
}

/// The hash of two words: also what pools fold their id into a placement seed with.
pub fn hash2(a: u32, b: u32) -> u32 {
    let mut hash = [SEED ^ a ^ b];
    let (mut a, mut b, mut x, mut y) = ([a], [b], [X], [Y]);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut x, &mut a, &mut hash);
    mix(&mut b, &mut y, &mut hash);
    hash[0]
}

/// The hash of three words.
pub fn hash3(a: u32, b: u32, c: u32) -> u32 {
    lanes3(a, [b], c)[0]
}

/// The hashes of (`a`, each of `b`, `c`).
#[inline(always)]
pub fn lanes3<const N: usize>(a: u32, b: [u32; N], c: u32) -> [u32; N] {
    let mut hash = b.map(|b| SEED ^ a ^ b ^ c);
    let (mut a, mut b, mut c, mut x, mut y) = ([a; N], b, [c; N], [X; N], [Y; N]);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut c, &mut hash);
    hash
}

/// The hash of four words.
pub fn hash4(a: u32, b: u32, c: u32, d: u32) -> u32 {
    let mut hash = [SEED ^ a ^ b ^ c ^ d];
    let (mut a, mut b, mut c, mut d, mut x, mut y) = ([a], [b], [c], [d], [X], [Y]);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut d, &mut hash);
    mix(&mut a, &mut x, &mut hash);
    mix(&mut y, &mut b, &mut hash);
    mix(&mut c, &mut x, &mut hash);
    mix(&mut y, &mut d, &mut hash);
    hash[0]
}

/// The hash of five words.
pub fn hash5(a: u32, b: u32, c: u32, d: u32, e: u32) -> u32 {
    let mut hash = [SEED ^ a ^ b ^ c ^ d ^ e];
    let (mut a, mut b, mut c, mut d, mut e, mut x, mut y) = ([a], [b], [c], [d], [e], [X], [Y]);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut d, &mut hash);
    mix(&mut e, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut c, &mut hash);
    mix(&mut d, &mut x, &mut hash);
    mix(&mut y, &mut e, &mut hash);
    hash[0]
}
