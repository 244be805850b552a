/**
 * Writing to the socket of an event stream, as uWebSockets.js behaves (20.51 and later; read in its source and tried):
 *
 * - `write` copies what the kernel does not take and returns false. Inside `cork` a write below 16 KiB always returns true,
 *   because it only fills the cork buffer; that the kernel refused it shows at the NEXT write. So a full socket is noticed one
 *   small frame late, which is fine, and every write must be corked: uncorked each frame is three system calls instead of
 *   one (13 µs instead of 5 µs for each reader, measured).
 * - With an onWritable handler uWebSockets.js does not send its buffer by itself: the next write does. So the handler
 *   always writes, a comment, and is called again as long as bytes remain. Without a handler, the library would close the
 *   connection 10 s after the socket has drained, even though the stream is only quiet.
 * - A refused write starts a timeout of 10 s (coarse), each further one starts it anew, onWritable ends it. There is no
 *   timeout at all while nothing is refused: a quiet stream stays open for as long as both ends like.
 */
import type { UwsResponse } from '../uws.ts';

let corkedRes: UwsResponse;
let corkedBytes: Uint8Array;
let corkedTaken: boolean;

/** One function for all writes: a closure for each of 1000 readers would cost as much as the frame. */
const writeCorked = (): void => {
  corkedTaken = corkedRes.write(corkedBytes);
};

/** Writes one chunk. False: the socket is full, and the bytes (or earlier ones) wait in memory. */
export function writeChunk(res: UwsResponse, bytes: Uint8Array): boolean {
  corkedRes = res;
  corkedBytes = bytes;
  res.cork(writeCorked);
  return corkedTaken;
}
