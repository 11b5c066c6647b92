//! Floods of HTTP/2 frames that carry nothing.
//!
//! A frame of 13 bytes costs the receiver a parse and a search for its stream. `WINDOW_UPDATE`, `PRIORITY`,
//! `PING`, `SETTINGS`, unknown frames and `RST_STREAM` of an ended stream need no request, and the HTTP library answers
//! or ignores them without a bound. So this check counts them before the library does. A request and written bytes
//! give credit: a client that reads a response updates its window for it, and one that cancels a request resets its
//! stream. A connection without credit is closed.
//!
//! The library closes a connection that holds too many small pieces of bodies unread. It reads all bytes that have
//! arrived before any reader of a body gets a turn, so a small upload of tiny pieces would look like a flood. So the
//! check also ends a turn of the library after some such pieces.
//!
//! The check reads types and lengths of frames. The library checks everything else.

/// Credit of one connection for frames without content.
#[derive(Debug)]
pub(crate) struct FrameCredit {
    credit: u64,
    /// Bytes before the next frame head: the rest of the preface, or of a frame.
    skip: u64,
    head: [u8; HEAD_LEN],
    filled: usize,
    /// Length of the last frame, and of the frames of an unfinished request head.
    frame: u64,
    request_head: u64,
    /// Written bytes that gave no credit yet.
    written: u64,
    /// Small pieces of bodies in this turn.
    pieces: u32,
}

/// Connection that sent too many frames without content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameFlood;

impl Default for FrameCredit {
    fn default() -> Self {
        Self {
            credit: MAX_CREDIT,
            skip: PREFACE_LEN,
            head: [0; HEAD_LEN],
            filled: 0,
            frame: 0,
            request_head: 0,
            written: 0,
            pieces: 0,
        }
    }
}

impl FrameCredit {
    /// Counts the frames in bytes that arrived, beginning with the preface. Returns the number of bytes up to the
    /// end of the turn.
    pub(crate) fn read(&mut self, all: &[u8]) -> Result<usize, FrameFlood> {
        let mut bytes = all;
        while !bytes.is_empty() && self.pieces < PIECES_PER_TURN {
            let available = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let skipped = self.skip.min(available);
            self.skip -= skipped;
            bytes = bytes
                .get(usize::try_from(skipped).unwrap_or(usize::MAX)..)
                .unwrap_or_default();
            let (taken, rest) = bytes.split_at(bytes.len().min(HEAD_LEN - self.filled));
            let place = self.head.iter_mut().skip(self.filled);
            place.zip(taken).for_each(|(to, from)| *to = *from);
            self.filled += taken.len();
            bytes = rest;
            if self.filled == HEAD_LEN {
                self.filled = 0;
                self.count()?;
            }
        }
        Ok(all.len() - bytes.len())
    }

    /// Begins the next turn. Returns false if this one goes on.
    pub(crate) fn end_turn(&mut self) -> bool {
        let is_over = self.pieces == PIECES_PER_TURN;
        if is_over {
            self.pieces = 0;
        }
        is_over
    }

    /// Returns the bytes of an unfinished frame or request head, which the library holds.
    pub(crate) fn unfinished(&self) -> usize {
        let frame = self.frame.saturating_sub(self.skip);
        let unfinished = if self.skip > 0 {
            frame.saturating_add(self.request_head)
        } else {
            self.request_head
        };
        usize::try_from(unfinished).unwrap_or(usize::MAX)
    }

    /// Gives credit for bytes that the client took.
    pub(crate) fn on_written(&mut self, bytes: usize) {
        self.written = self.written.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        self.credit = MAX_CREDIT.min(self.credit.saturating_add(self.written / BYTES_PER_FRAME));
        self.written %= BYTES_PER_FRAME;
    }

    /// Counts the frame of a complete head.
    fn count(&mut self) -> Result<(), FrameFlood> {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.skip = u64::from(u32::from_be_bytes([0, high, middle, low]));
        self.frame = self.skip;
        self.request_head = match kind {
            HEADERS | CONTINUATION if flags & END_HEADERS == 0 => self.request_head.saturating_add(self.frame),
            _ => 0,
        };
        match kind {
            DATA if self.skip > 0 => self.pieces += u32::from(self.skip < SMALL_PIECE),
            HEADERS => self.credit = MAX_CREDIT.min(self.credit.saturating_add(FRAMES_PER_REQUEST)),
            // The library has its own bound.
            CONTINUATION => {}
            _ => self.credit = self.credit.checked_sub(1).ok_or(FrameFlood)?,
        }
        Ok(())
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// Flag of the last frame of a request head.
const END_HEADERS: u8 = 4;

/// Length, type, flags and stream.
const HEAD_LEN: usize = 9;

/// `PRI * HTTP/2.0`, a blank line, `SM`, a blank line.
const PREFACE_LEN: u64 = 24;

/// A ping every ten seconds for a day, and 117 kB of a flood.
const MAX_CREDIT: u64 = 9_000;

/// Windows of the stream and of the connection, priorities and a few pings.
const FRAMES_PER_REQUEST: u64 = 16;

/// Eager clients update both windows for each kilobyte. More than the answer to a ping, so that pings give none.
const BYTES_PER_FRAME: u64 = 256;

/// Pieces below this size count for the library.
const SMALL_PIECE: u64 = 256;

/// A quarter of the small pieces that the library holds for our window.
const PIECES_PER_TURN: u32 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes all bytes, in as many turns as they need.
    fn pass(frames: &mut FrameCredit, mut bytes: &[u8]) -> Result<u32, FrameFlood> {
        let mut turns = 0;
        while !bytes.is_empty() {
            let passed = frames.read(bytes)?;
            bytes = bytes.get(passed..).expect("no more than all");
            turns += u32::from(frames.end_turn());
        }
        Ok(turns)
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let mut frame = length.get(1..).expect("four bytes").to_vec();
        frame.extend([kind, 0, 0, 0, 0, 1]);
        frame.extend(payload);
        frame
    }

    fn connection() -> FrameCredit {
        let mut frames = FrameCredit::default();
        frames.read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("a preface");
        frames
    }

    const WINDOW_UPDATE: u8 = 8;
    const PRIORITY: u8 = 2;
    const RST_STREAM: u8 = 3;

    // 9,000 frames use up the credit of a connection, whatever their kind and wherever the network cuts them.
    #[test]
    fn a_flood_ends_at_its_credit_however_it_is_cut() {
        for (kind, payload) in [
            (WINDOW_UPDATE, &[0, 0, 0, 1][..]),
            (PRIORITY, &[0; 5]),
            (RST_STREAM, &[0, 0, 0, 8]),
            (0xbb, &[]),
            (DATA, &[]),
        ] {
            for piece in [1, 7, 9, 64, 10_000] {
                let mut frames = connection();
                let all = frame(kind, payload).repeat(9_000);
                assert!(
                    all.chunks(piece).all(|part| frames.read(part).is_ok()),
                    "{kind} {piece}"
                );
                assert_eq!(frames.read(&frame(kind, payload)), Err(FrameFlood), "{kind} {piece}");
            }
        }
    }

    // A million frames of data cost nothing, nor do two updates for each kilobyte that the client reads.
    #[test]
    fn data_and_its_window_updates_are_no_flood() {
        let mut frames = connection();
        for _ in 0..100_000 {
            pass(&mut frames, &frame(DATA, b"abc")).expect("content");
            frames.on_written(1_024);
            frames
                .read(&frame(WINDOW_UPDATE, &[0, 0, 4, 0]).repeat(2))
                .expect("a reader");
        }
    }

    // The library holds about 500 pieces of one byte. 1,000 of them are seven turns and most of another, wherever the
    // network cuts them; larger ones need none.
    #[test]
    fn tiny_pieces_of_a_body_arrive_in_turns() {
        for cut in [1, 9, 10, 10_000] {
            let mut frames = connection();
            let all = frame(DATA, b"a").repeat(1_000);
            let turns: u32 = all
                .chunks(cut)
                .map(|part| pass(&mut frames, part).expect("content"))
                .sum();
            assert_eq!(turns, 7, "{cut}");
        }
        let all = frame(DATA, &[0; 256]).repeat(1_000);
        assert_eq!(pass(&mut connection(), &all), Ok(0));
    }

    // Sixteen frames for each of 100,000 requests.
    #[test]
    fn a_request_gives_credit() {
        let mut frames = connection();
        for _ in 0..100_000 {
            frames.read(&frame(HEADERS, b"head")).expect("a request");
            frames.read(&frame(PRIORITY, &[0; 5]).repeat(16)).expect("a request");
        }
    }
}
