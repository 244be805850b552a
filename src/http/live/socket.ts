/**
 * Writing to the socket of an answer of unknown length, as uWebSockets.js behaves (20.51 and later; read in its source and tried):
 *
 * - `write` copies what the kernel does not take and returns false. Inside `cork` a write below 16 KiB always returns true,
 *   because it only fills the cork buffer; that the kernel refused it shows at the NEXT write. So a full socket is noticed one
 *   small frame late, which is fine, and every write must be corked: uncorked each frame is three system calls instead of
 *   one (13 µs instead of 5 µs for each reader, measured).
 * - Inside `cork` a write of more than fits the cork buffer is LOST, all of it, when the kernel has no room for what was corked
 *   before, be it the nine bytes of the chunk's own size: `uncork` in its AsyncSocket.h returns and forgets it. The client
 *   takes what follows for the missing bytes. So no write is larger than the cork buffer.
 * - With an onWritable handler uWebSockets.js does not send its buffer by itself: the next write does. So the handler
 *   always writes, a comment, and is called again as long as bytes remain. Without a handler, the library would close the
 *   connection 10 s after the socket has drained, even though the stream is only quiet.
 * - A refused write starts a timeout of 10 s (coarse), each further one starts it anew, onWritable ends it. There is no
 *   timeout at all while nothing is refused: a quiet stream stays open for as long as both ends like.
 */
import type { UwsResponse } from '../uws.ts';

/** The cork buffer has 16 KiB; the head of a chunk goes there too, in front of the first one `Transfer-Encoding: chunked`. */
const WRITE_BYTES_MAX = 15 * 1024;

let corkedRes: Pick<UwsResponse, 'cork' | 'write'>;
let corkedBytes: Uint8Array;
let corkedTaken: boolean;

/** One function for all writes: a closure for each of 1000 readers would cost as much as the frame. */
const writeCorked = (): void => {
  corkedTaken = corkedRes.write(corkedBytes);
};

/** Writes some bytes, not none. False: the socket is full, and the bytes (or earlier ones) wait in memory. */
export function writeChunk(res: Pick<UwsResponse, 'cork' | 'write'>, bytes: Uint8Array): boolean {
  corkedRes = res;
  if (bytes.length <= WRITE_BYTES_MAX) {
    corkedBytes = bytes;
    res.cork(writeCorked);
    return corkedTaken;
  }
  let taken = true;
  for (let at = 0; at < bytes.length; at += WRITE_BYTES_MAX) {
    corkedBytes = bytes.subarray(at, at + WRITE_BYTES_MAX);
    res.cork(writeCorked);
    taken = corkedTaken;
  }
  return taken;
}
